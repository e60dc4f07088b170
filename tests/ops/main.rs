//! Every kernel of the code object against the f64 oracle: cases are data, one `check` per operation. The machine code runs in the
//! emulator. Models and launches through the HIP layer are tested elsewhere.

mod argmax;
mod attention;
mod data;
mod elementwise;
mod embed;
mod kv_append;
mod linear;
mod machine;
mod norms;
mod rope;
