//! A Qwen3 checkpoint's `config.json`, with the checkpoint's names. Reading and refusing live here; nothing is defaulted that
//! changes the mathematics.

/// Architecture of a dense Qwen3 decoder, names and meaning as in the checkpoint.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ModelConfig {
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the MLP between gate/up and down.
    pub intermediate_size: usize,
    /// Decoder layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key/value heads; query head `h` reads key/value head `h / (num_attention_heads / num_key_value_heads)`.
    pub num_key_value_heads: usize,
    /// Elements per head; explicit in the checkpoint, not `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    /// Rows of the embedding and of the lm_head.
    pub vocab_size: usize,
    /// Longest context in tokens: the one number from which RoPE table, KV cache and admission derive.
    pub max_position_embeddings: usize,
    /// Epsilon inside every RMSNorm.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Whether lm_head is the embedding.
    pub tie_word_embeddings: bool,
}

impl ModelConfig {
    /// Elements of one token's queries: heads × head_dim.
    pub fn q_size(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }
    /// Elements of one token's keys (or values): kv heads × head_dim.
    pub fn kv_size(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }
    /// Query heads per key/value head.
    pub fn group_size(&self) -> usize {
        self.num_attention_heads / self.num_key_value_heads
    }
}
