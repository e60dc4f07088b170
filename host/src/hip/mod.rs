//! The only place that knows HIP. [`ffi`] is the table of symbols, [`library`] finds and opens a library with HIP's C ABI (AMD's
//! or the emulator's: the same code), the rest owns what it hands out: [`device`], [`memory`], [`stream`], [`graph`],
//! [`module`]. It
//! deliberately knows no model and no operation but through their kernels' argument blocks, in [`kernels`] and [`decode`].
#![allow(unsafe_code, reason = "foreign functions: each block is argued, docs/SAFETY.md says what a launch must keep")]

mod captures;
pub mod decode;
pub mod device;
pub mod error;
pub mod ffi;
pub mod graph;
pub mod kernels;
pub mod library;
pub mod memory;
pub mod metadata;
pub mod module;
pub mod stream;
pub mod system;

pub use device::{Choice, DeviceError, DeviceInfo, Selector, choose, devices};
pub use error::HipError;
pub use graph::{Graph, GraphExec};
pub use library::{Library, LibraryError, Search, Version};
pub use memory::{Buffer, Context, Span, SpanError};
pub use stream::{Event, Stream};
