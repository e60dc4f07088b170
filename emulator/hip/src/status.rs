//! HIP's status numbers as far as this library returns or names them, with their texts. A table; nothing decides here.

use std::ffi::{CStr, c_int};

/// A status that is not success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub c_int);

macro_rules! statuses {
    ($($constant:ident = $number:literal, $name:literal, $text:literal;)*) => {
        impl Status {
            $( #[allow(dead_code, reason = "named for callers that ask for its text")] pub const $constant: Status = Status($number); )*

            /// HIP's identifier.
            pub fn name(self) -> &'static CStr {
                match self.0 { $( $number => $name, )* _ => c"hipErrorUnknown" }
            }

            /// What it means.
            pub fn text(self) -> &'static CStr {
                match self.0 { $( $number => $text, )* _ => c"unknown error" }
            }
        }
    };
}

statuses! {
    SUCCESS = 0, c"hipSuccess", c"no error";
    INVALID_VALUE = 1, c"hipErrorInvalidValue", c"invalid argument";
    OUT_OF_MEMORY = 2, c"hipErrorOutOfMemory", c"out of memory";
    NOT_INITIALIZED = 3, c"hipErrorNotInitialized", c"initialization error";
    INVALID_CONFIGURATION = 9, c"hipErrorInvalidConfiguration", c"invalid configuration argument";
    INVALID_DEVICE_POINTER = 17, c"hipErrorInvalidDevicePointer", c"invalid device pointer";
    INVALID_MEMCPY_DIRECTION = 21, c"hipErrorInvalidMemcpyDirection", c"invalid copy direction for memcpy";
    NO_DEVICE = 100, c"hipErrorNoDevice", c"no ROCm-capable device is detected";
    INVALID_DEVICE = 101, c"hipErrorInvalidDevice", c"invalid device ordinal";
    INVALID_IMAGE = 200, c"hipErrorInvalidImage", c"device kernel image is invalid";
    INVALID_CONTEXT = 201, c"hipErrorInvalidContext", c"invalid device context";
    NO_BINARY_FOR_GPU = 209, c"hipErrorNoBinaryForGpu", c"no kernel image is available for execution on the device";
    INVALID_KERNEL_FILE = 218, c"hipErrorInvalidKernelFile", c"invalid kernel file";
    FILE_NOT_FOUND = 301, c"hipErrorFileNotFound", c"file not found";
    INVALID_HANDLE = 400, c"hipErrorInvalidHandle", c"invalid resource handle";
    NOT_FOUND = 500, c"hipErrorNotFound", c"named symbol not found";
    NOT_READY = 600, c"hipErrorNotReady", c"device not ready";
    ILLEGAL_ADDRESS = 700, c"hipErrorIllegalAddress", c"an illegal memory access was encountered";
    LAUNCH_FAILURE = 719, c"hipErrorLaunchFailure", c"unspecified launch failure";
    NOT_SUPPORTED = 801, c"hipErrorNotSupported", c"operation not supported";
    UNKNOWN = 999, c"hipErrorUnknown", c"unknown error";
}
