//! out[t,i] = table[ids[t],i].

/// `table` is `[V, hidden]`.
pub fn embed(ids: &[u32], table: &[f64], hidden: usize) -> Vec<f64> {
    let mut out = Vec::new();
    for &id in ids {
        for i in 0..hidden {
            out.push(table[id as usize * hidden + i]);
        }
    }
    out
}
