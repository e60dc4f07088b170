//! Every kernel of the code object against the f64 oracle: cases are data, one `check` per operation. The machine code runs in the
//! emulator, kernel by kernel (`machine`) and as the host launches it (`hip`), and with `HW=1` on the card too. Whole models are
//! tested elsewhere.

mod argmax;
mod attention;
mod attention_formats;
mod data;
mod elementwise;
mod embed;
mod hip;
mod kv_append;
mod kv_formats;
mod linear;
mod machine;
mod norms;
mod prepare_heads;
mod products;
mod quantized;
mod rope;
mod top_k;
mod w8a8;
