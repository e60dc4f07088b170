//! ELF code objects: kernels, their descriptors and metadata.

/// A parsed code object.
pub struct CodeObject {}
