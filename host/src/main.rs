//! The binary: everything it does is [`zynfer::cli`].

fn main() -> std::process::ExitCode {
    zynfer::cli::main()
}
