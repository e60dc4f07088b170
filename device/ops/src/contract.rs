//! What host and kernel agree on: the order, offsets and sizes of arguments, and the size of a workgroup. A test compares it with the code
//! object's metadata.

/// One kernel of the code object.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// Symbol name.
    pub name: &'static str,
    /// Its arguments in order.
    pub fields: &'static [Field],
    /// Waves of a workgroup, in every launch. It is the kernel's launch bound: how many VGPRs a wave may use follows from it
    /// ([`Kernel::max_vgprs`]).
    pub waves: u32,
    /// Workgroups that a WGP must have registers for: several where all of a launch run at once, else one.
    pub workgroups_per_wgp: u32,
}

impl Kernel {
    /// A kernel whose workgroups may run one after the other.
    pub const fn new(name: &'static str, fields: &'static [Field], waves: u32) -> Self {
        Self { name, fields, waves, workgroups_per_wgp: 1 }
    }

    /// Bytes of its arguments, from the first to the end of the last: `Args` without what pads it to 8.
    pub fn args_bytes(&self) -> usize {
        self.fields.iter().map(|field| field.offset + field.size).max().unwrap_or(0)
    }

    /// VGPRs that a wave may use.
    pub fn max_vgprs(&self) -> u32 {
        amdgpu_target::max_vgprs(self.waves * self.workgroups_per_wgp)
    }
}

/// One argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name in `Args`, the same as the kernel's parameter.
    pub name: &'static str,
    /// Offset in the kernarg segment, in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Whether it is a device address.
    pub pointer: bool,
}

/// A device address as the host holds it.
pub type Address = u64;

/// Defines an operation's `Args`: `repr(C)`, plain bytes on the host, with the table of its fields. A name after `pad` fills the tail
/// to a multiple of 8 bytes and is no argument.
macro_rules! args {
    ($(#[$doc:meta])* pub struct Args { $($(#[$field_doc:meta])* pub $field:ident: $kind:ident,)* } $(pad $pad:ident)?) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[cfg_attr(not(gpu), derive(bytemuck::Pod, bytemuck::Zeroable))]
        pub struct Args {
            $($(#[$field_doc])* pub $field: $kind,)*
            $(/// Fills the struct to a multiple of 8 bytes; no argument of the kernel.
            pub $pad: u32,)?
        }
        impl Args {
            /// The kernel's arguments in order.
            pub const FIELDS: &'static [$crate::contract::Field] = &[$($crate::contract::Field {
                name: stringify!($field),
                offset: core::mem::offset_of!(Args, $field),
                size: size_of::<$kind>(),
                pointer: $crate::contract::is_pointer(stringify!($kind)),
            },)*];
        }
    };
}
pub(crate) use args;

pub(crate) const fn is_pointer(kind: &str) -> bool {
    matches!(kind.as_bytes(), b"Address")
}
