//! The program `zest`.

fn main() {}
