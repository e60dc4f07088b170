//! The cache after an append: keys `[kv_heads, capacity, D]`, values `[kv_heads, D, capacity]`. No rounding here: the caller rounds.

/// Shape of one layer's cache.
#[derive(Debug, Clone, Copy)]
pub struct Cache {
    /// Key/value heads.
    pub kv_heads: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// Positions.
    pub capacity: usize,
}

impl Cache {
    /// Elements of the keys, or of the values.
    pub fn elements(&self) -> usize {
        self.kv_heads * self.head_dim * self.capacity
    }
    /// Where a key's element lies.
    pub fn key(&self, head: usize, position: usize, d: usize) -> usize {
        head * self.capacity * self.head_dim + position * self.head_dim + d
    }
    /// Where a value's element lies.
    pub fn value(&self, head: usize, position: usize, d: usize) -> usize {
        head * self.head_dim * self.capacity + d * self.capacity + position
    }
}

/// Writes `k` and `v` `[T, kv_heads, D]` at `position`.
pub fn kv_append<T: Copy>(cache: Cache, k: &[T], v: &[T], position: usize, keys: &mut [T], values: &mut [T]) {
    let mut from = 0;
    for t in 0..k.len() / (cache.kv_heads * cache.head_dim) {
        for head in 0..cache.kv_heads {
            for d in 0..cache.head_dim {
                keys[cache.key(head, position + t, d)] = k[from];
                values[cache.value(head, position + t, d)] = v[from];
                from += 1;
            }
        }
    }
}
