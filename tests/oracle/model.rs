//! A whole forward pass in f64, written from the model's definition: plain loops over the bf16 weights, no cache, no chunks, no
//! blocks. It shares no code with any backend and is slow; use it on small models.

use std::collections::HashMap;

use half::bf16;
use rayon::prelude::*;
use zynfer::{artifact::Artifact, model::config::ModelConfig};

/// The weights as f64.
pub struct Oracle {
    config: ModelConfig,
    tensors: HashMap<String, Vec<f64>>,
}

impl Oracle {
    pub fn new(artifact: &Artifact) -> Self {
        let read = |bytes: &[u8]| bytes.as_chunks().0.iter().map(|b| f64::from(bf16::from_le_bytes(*b))).collect();
        let tensors = artifact.tensors().map(|t| (t.name.to_owned(), read(t.bytes))).collect();
        Self { config: artifact.config().clone(), tensors }
    }

    fn get(&self, name: &str) -> &[f64] {
        &self.tensors[&format!("{name}.weight")]
    }

    /// Whether the checkpoint has it: what a family has in a layer is told by its tensors.
    fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// `y[t] = W · x[t]` for each row `t` of `width` elements.
    fn linear(&self, name: &str, x: &[f64], width: usize) -> Vec<f64> {
        let w = self.get(name);
        let row = |x: &[f64]| w.chunks(width).map(|w| w.iter().zip(x).map(|(w, x)| w * x).sum()).collect::<Vec<f64>>();
        x.par_chunks(width).flat_map_iter(row).collect()
    }

    /// RMSNorm of each run of `w.len()` elements.
    fn norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let w = self.get(name);
        let row = |x: &[f64]| {
            let mean = x.iter().map(|x| x * x).sum::<f64>() / w.len() as f64;
            let factor = 1.0 / (mean + self.config.rms_norm_eps).sqrt();
            x.iter().zip(w).map(|(x, w)| x * factor * w).collect::<Vec<f64>>()
        };
        x.chunks(w.len()).flat_map(row).collect()
    }

    /// Rotates every head of every token; `heads` heads per token.
    fn rope(&self, x: &mut [f64], heads: usize) {
        let (d, half) = (self.config.head_dim, self.config.head_dim / 2);
        for (index, head) in x.chunks_mut(d).enumerate() {
            let position = (index / heads) as f64;
            for i in 0..half {
                let angle = position / self.config.rope_theta.powf(2.0 * i as f64 / d as f64);
                let (a, b) = (head[i], head[i + half]);
                head[i] = a * angle.cos() - b * angle.sin();
                head[i + half] = b * angle.cos() + a * angle.sin();
            }
        }
    }

    fn attention(&self, q: &[f64], k: &[f64], v: &[f64]) -> Vec<f64> {
        let c = &self.config;
        let (d, heads, kv_heads) = (c.head_dim, c.num_attention_heads, c.num_key_value_heads);
        let one = |index: usize| {
            let (t, kv) = (index / heads, index % heads / (heads / kv_heads));
            let at = |j: usize| (j * kv_heads + kv) * d..(j * kv_heads + kv + 1) * d;
            let query = &q[index * d..(index + 1) * d];
            let score = |j: usize| query.iter().zip(&k[at(j)]).map(|(q, k)| q * k).sum::<f64>() / (d as f64).sqrt();
            let scores: Vec<f64> = (0..=t).map(score).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
            let mut out = vec![0.0; d];
            for (j, score) in scores.iter().enumerate() {
                let weight = (score - max).exp() / sum;
                out.iter_mut().zip(&v[at(j)]).for_each(|(o, v)| *o += weight * v);
            }
            out
        };
        (0..q.len() / d).into_par_iter().flat_map_iter(one).collect()
    }

    /// Logits of the last of `ids`.
    pub fn last_logits(&self, ids: &[u32]) -> Vec<f64> {
        let c = &self.config;
        let (h, i) = (c.hidden_size, c.intermediate_size);
        let (heads, kv_heads) = (c.num_attention_heads, c.num_key_value_heads);
        let table = self.get("model.embed_tokens");
        let mut hidden: Vec<f64> = ids.iter().flat_map(|id| &table[*id as usize * h..][..h]).copied().collect();
        let add = |hidden: &mut Vec<f64>, x: Vec<f64>| hidden.iter_mut().zip(x).for_each(|(h, x)| *h += x);
        for layer in 0..c.num_hidden_layers {
            let name = |part: &str| format!("model.layers.{layer}.{part}");
            let x = self.norm(&name("input_layernorm"), &hidden);
            let project = |part: &str| self.linear(&name(part), &x, h);
            let [mut q, mut k, v] = ["q", "k", "v"].map(|which| {
                let mut y = project(&format!("self_attn.{which}_proj"));
                if let Some(bias) = self.tensors.get(&name(&format!("self_attn.{which}_proj.bias"))) {
                    y.iter_mut().zip(bias.iter().cycle()).for_each(|(y, b)| *y += b);
                }
                y
            });
            if self.has(&name("self_attn.q_norm.weight")) {
                q = self.norm(&name("self_attn.q_norm"), &q);
                k = self.norm(&name("self_attn.k_norm"), &k);
            }
            self.rope(&mut q, heads);
            self.rope(&mut k, kv_heads);
            let mixed = self.attention(&q, &k, &v);
            add(&mut hidden, self.linear(&name("self_attn.o_proj"), &mixed, heads * c.head_dim));

            let x = self.norm(&name("post_attention_layernorm"), &hidden);
            let (gate, up) = (self.linear(&name("mlp.gate_proj"), &x, h), self.linear(&name("mlp.up_proj"), &x, h));
            let mlp: Vec<f64> = gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            add(&mut hidden, self.linear(&name("mlp.down_proj"), &mlp, i));
        }
        let last = self.norm("model.norm", &hidden[hidden.len() - h..]);
        self.linear(if c.tie_word_embeddings { "model.embed_tokens" } else { "lm_head" }, &last, h)
    }
}
