//! HIP ABI
