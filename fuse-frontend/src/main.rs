//! The program `zest`.

fn main() -> std::process::ExitCode {
    zest_fuse::cli::run()
}
