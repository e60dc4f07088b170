//! The HIP boundary: which library is opened and what is said when none is; which card is chosen; the emulator's C ABI as a C program
//! sees it, compiled against AMD's own header; argument blocks against the code object's metadata. What kernels compute is not here.

mod abi;
mod backend;
mod decoder;
mod device;
mod handles;
mod header;
mod library;
mod packing;
mod stub;
mod system;
