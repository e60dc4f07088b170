//! The kernels' parameters, once: a launch's arguments as a struct, their way through LDS, and the kernels that have them.

use amdgpu_target::gpu::{B128, lds, load, store, wave_uniform};

use super::{LDS_NUMBERS, LDS_TABLE, UNIT};

/// The parameters of the kernels, in the order of `Args`, given to the macro `$then` behind what it wants for itself.
macro_rules! with_parameters {
    ($then:ident $own:tt) => {
        $then! {
            $own
            pointers {
                weights: *const u8, cache: *const u8, rope: *const f32, work: *mut u8, ids: *mut u32, logits: *mut f32,
            }
            numbers {
                layer_stride embed input_norm qkv q_norm k_norm o post_norm gate up down norm head hidden heads kv_heads intermediate
                vocab capacity layers tokens keep_logits grid lds_sums lds_x group_log2
            }
            floats { eps scale }
        }
    };
}
pub(super) use with_parameters;

macro_rules! launch {
    ({} pointers { $($pointer:ident: $kind:ty,)* } numbers { $($number:ident)* } floats { $($float:ident)* }) => {
        /// A launch: the kernel's arguments, as `Args` says them, with pointers as pointers.
        #[derive(Clone, Copy)]
        pub struct Launch {
            $(pub $pointer: $kind,)*
            $(pub $number: u32,)*
            $(pub $float: f32,)*
        }

        impl Launch {
            /// A tensor of `layer`, `offset` being the first layer's.
            #[inline(always)]
            pub fn tensor(&self, offset: u32, layer: u32) -> *const u8 {
                // Units are counted in 32 bits: a terabyte.
                let units = offset.wrapping_add(layer.wrapping_mul(self.layer_stride));
                self.weights.wrapping_add(units as usize * UNIT as usize)
            }

            /// Leaves the numbers in LDS; a barrier comes before they are read.
            ///
            /// # Safety
            /// 1. One item calls it.
            #[inline(always)]
            pub unsafe fn leave(&self) {
                let numbers = [$(self.$number),*];
                const { assert!(size_of::<[u32; NUMBERS]>() <= (LDS_TABLE - LDS_NUMBERS) as usize) };
                for i in 0..NUMBERS {
                    // SAFETY: the launch gives the place.
                    unsafe { store(memory(LDS_NUMBERS).cast(), i, numbers[i]) };
                }
            }

            /// The launch with its numbers as LDS has them. To the compiler they are news: what it would keep in scalar registers for
            /// all phases of all layers, more than there are, it makes anew in each.
            ///
            /// # Safety
            /// 1. After [`Launch::leave`] and a barrier.
            #[inline(always)]
            pub unsafe fn again(self) -> Self {
                // SAFETY: written before the barrier and never again.
                let numbers: [u32; NUMBERS] = unsafe { load(memory(LDS_NUMBERS).cast(), 0) };
                let [$($number),*] = numbers.map(wave_uniform);
                Self { $($number,)* ..self }
            }
        }

        const NUMBERS: usize = [$(stringify!($number)),*].len();
    };
}
with_parameters! { launch {} }

/// LDS of the workgroup, from `offset` bytes on.
#[inline(always)]
pub fn memory(offset: u32) -> *mut f32 {
    lds::<B128>().wrapping_byte_add(offset as usize).cast()
}

macro_rules! define_kernel {
    ({ [$($doc:tt)*] $name:ident $body:ident $weights:ty, $d:literal $normed:literal }
    pointers { $($pointer:ident: $kind:ty,)* } numbers { $($number:ident)* } floats { $($float:ident)* }) => {
        $($doc)*
        #[unsafe(no_mangle)]
        pub unsafe extern "gpu-kernel" fn $name($($pointer: $kind,)* $($number: u32,)* $($float: f32,)*) {
            let launch = Launch { $($pointer,)* $($number,)* $($float,)* };
            // SAFETY: the body's contract is the kernel's.
            unsafe { $body::<$weights, $d, $normed>(launch) };
        }
    };
}
pub(super) use define_kernel;

/// Writes one kernel over a body for a way of storing matrices, a head_dim and heads with norms or without, with the parameters of `Args`.
macro_rules! kernel {
    ($(#[$doc:meta])* $name:ident, $body:ident::<$weights:ty, $d:literal, $normed:literal>) => {
        with_parameters! { define_kernel { [$(#[$doc])*] $name $body $weights, $d $normed } }
    };
}
pub(super) use kernel;
