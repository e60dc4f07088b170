//! The kernels: which phases follow each other in a launch.

use amdgpu_target::gpu::{end_wave, item_idx, store, workgroup_x};

use super::INFINITE_ID;
use super::launch::{Launch, define_kernel, kernel, with_parameters};
use super::step::{Row, Step};
use super::weights::{Plain, Weights};

/// First half of a layer.
///
/// # Safety
/// As the kernels.
#[inline(always)]
unsafe fn attention<W: Weights, const D: usize, const NORMED: bool>(launch: Launch) {
    // SAFETY: the kernel's contract.
    unsafe {
        let mut step = Step::<W, D, NORMED>::new(launch);
        let (position, id) = (step.state(0), step.state(1));
        let layer = launch.layers;
        let row = if layer == 0 { step.embedding(id) } else { Row::Stream };
        step.fetch_own(row);
        step.project(layer, row, false);
        step.attend(layer, position);
        step.add::<false>(layer, |step| step.merge(position));
        step.grid.leave();
    }
}

/// Second half of a layer.
///
/// # Safety
/// As the kernels.
#[inline(always)]
unsafe fn mlp<W: Weights, const D: usize, const NORMED: bool>(launch: Launch) {
    // SAFETY: the kernel's contract.
    unsafe {
        let mut step = Step::<W, D, NORMED>::new(launch);
        step.fetch_own(Row::Stream);
        step.gate_up(launch.layers, false);
        step.add::<true>(launch.layers, |step| step.copy_mlp());
        step.grid.leave();
    }
}

/// After the layers.
///
/// # Safety
/// As the kernels.
#[inline(always)]
unsafe fn head<W: Weights, const D: usize, const NORMED: bool>(launch: Launch) {
    // SAFETY: the kernel's contract.
    unsafe {
        let mut step = Step::<W, D, NORMED>::new(launch);
        let position = step.state(0);
        let id = step.choose(false);
        if workgroup_x() == 0 && item_idx() == 0 {
            store(launch.ids, 0, id);
            step.set_state(position + 1, id);
        }
        step.grid.leave();
    }
}

/// Whole tokens.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub unsafe fn persistent<W: Weights, const D: usize, const NORMED: bool>(launch: Launch) {
    // SAFETY: the kernel's contract.
    unsafe {
        let mut step = Step::<W, D, NORMED>::new(launch);
        W::enter(&step.launch, step.launch.layers, step.at);
        let (mut position, mut id) = (step.state(0), step.state(1));
        let mut token = 0;
        while token < step.launch.tokens {
            let mut layer = 0;
            step.fetch_own(step.embedding(id));
            while layer < step.launch.layers {
                let row = if layer == 0 { step.embedding(id) } else { Row::Stream };
                step.project(layer, row, layer > 0);
                step.attend(layer, position);
                step.add::<false>(layer, |step| step.merge(position));
                step.gate_up(layer, true);
                step.add::<true>(layer, |step| step.copy_mlp());
                layer += 1;
            }
            id = step.choose(true);
            position += 1;
            if workgroup_x() == 0 && item_idx() == 0 {
                store(launch.ids, token as usize, id);
            }
            token += 1;
            let mut stop = id >= INFINITE_ID;
            let (mut end, ends) = (0, step.state(2));
            while end < ends {
                stop |= step.state(4 + end) == id;
                end += 1;
            }
            if stop {
                break;
            }
        }
        if workgroup_x() == 0 && item_idx() == 0 {
            step.set_state(position, id);
        }
        step.grid.leave();
        end_wave()
    }
}

kernel! {
    /// First half of a decode step's layer: hidden += o_proj(attention(q, k, v of RMSNorm(hidden))), and the token's key and value appended
    ///
    /// Input      [`super::Args`]; layer 0 reads the token's embedding, others the residual stream `[H]` f32 in `work`
    /// Output     the residual stream; key and value of the token's position in the cache; nothing of `ids` and `logits`
    /// Numerics   as the unfused kernels: inputs of products rounded to bf16, f32 sums; queries and weights of attention stay f32;
    ///            oracle::model, Tolerance of logits
    /// Workgroup  16 waves × 32 lanes; grid = any number that runs at once, at most 1024
    /// Wave       wave32; nobody leaves before the end; all lanes live at reductions
    /// LDS        [`super::Shape::geometry`]: residual rows, sums, the activation as bf16 or attention's queries and scores
    /// Registers  budget 192 VGPR, 0 spills: three steps of weights in flight (48), their vector, addresses
    /// Memory     weights 16 B per lane, consecutive lanes consecutive, each byte once; activations from L2 by every workgroup;
    ///            bytes = 2·(Q+2K)·H + 2·H·Q + 4·K·positions
    /// Sync       three grid barriers, workgroup barriers between stages
    /// Target     gfx1201; expects `global_load_b128`, `buffer_load_b128`, `buffer_atomic_add_u32`, `v_exp_f32`, `s_sleep`
    /// Why        a layer as one launch of 9 has 9 tails and 9 heads in which memory idles; a grid barrier costs about a microsecond,
    ///            and the next phase's weights are on their way while it is waited for
    ///
    /// # Safety
    /// 1. The arguments are what `Args` says.  2. Launched with `Shape::geometry(grid)`, all workgroups at once; `work` was zeroed before
    ///    the first launch and is used by one launch at a time.  3. Positions below the state's are appended.
    decode_attention_d128, attention::<Plain, 128, true>
}
kernel! {
    /// First half of a decode step's layer, for head_dim 64: as `decode_attention_d128`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_attention_d64, attention::<Plain, 64, true>
}
kernel! {
    /// Second half of a decode step's layer: hidden += down_proj(silu(gate_proj(y)) ∘ up_proj(y)), y = RMSNorm(hidden)
    ///
    /// Input, Output, Numerics, Workgroup, Wave, LDS, Registers, Target, Why   as `decode_attention_d128`, without the cache
    /// Memory     bytes = 6·H·I
    /// Sync       two grid barriers
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_mlp_d128, mlp::<Plain, 128, true>
}
kernel! {
    /// Second half of a decode step's layer, for head_dim 64: as `decode_mlp_d128`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_mlp_d64, mlp::<Plain, 64, true>
}
kernel! {
    /// End of a decode step: ids[0] = argmax(lm_head(RMSNorm(hidden))), and the state is the next token's
    ///
    /// Input      as `decode_attention_d128`
    /// Output     one id, or `NAN_ID`, or `INFINITE_ID`; logits `[V]` f32 if `keep_logits`; position + 1 and the id in the state
    /// Numerics   as `linear_bf16_gemv` and `argmax_f32`
    /// Workgroup, Wave, LDS, Registers, Target   as `decode_attention_d128`
    /// Memory     bytes = 2·V·H
    /// Sync       one grid barrier
    /// Why        the largest logit is known where the logits are made: four bytes go back instead of 4·V
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_head_d128, head::<Plain, 128, true>
}
kernel! {
    /// End of a decode step, for head_dim 64: as `decode_head_d128`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_head_d64, head::<Plain, 64, true>
}
kernel! {
    /// Whole decode steps: `tokens` times all layers and the end, each step's id the next one's token; an id that ends the text, or is
    /// none, ends the launch
    ///
    /// Input, Output, Numerics, Workgroup, Wave, LDS, Registers, Target   as the three kernels it stands for; ids `[tokens]`
    /// Memory     per token what the three read, once
    /// Sync       5 grid barriers per layer and one per token
    /// Why        no launch at all between tokens
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_persistent_d128, persistent::<Plain, 128, true>
}
kernel! {
    /// Whole decode steps, for head_dim 64: as `decode_persistent_d128`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_persistent_d64, persistent::<Plain, 64, true>
}
kernel! {
    /// First half of a decode step's layer whose heads have no norms: as `decode_attention_d128` with q, k, v = their products + biases, if
    /// there are any, and queries and keys rotated as they are
    ///
    /// Memory     2·(Q+2K) bytes of biases more
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_rotated_attention_d128, attention::<Plain, 128, false>
}
kernel! {
    /// First half of a decode step's layer whose heads have no norms, for head_dim 64: as `decode_rotated_attention_d128`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_rotated_attention_d64, attention::<Plain, 64, false>
}
kernel! {
    /// Whole decode steps, heads without norms: as `decode_persistent_d128` with the layers of `decode_rotated_attention_d128`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_rotated_persistent_d128, persistent::<Plain, 128, false>
}
kernel! {
    /// Whole decode steps, heads without norms, for head_dim 64: as `decode_rotated_persistent_d128`.
    ///
    /// # Safety
    /// As `decode_attention_d128`.
    decode_rotated_persistent_d64, persistent::<Plain, 64, false>
}
