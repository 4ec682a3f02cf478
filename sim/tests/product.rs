//! The product has nothing of the simulator: neither its libraries nor the planted bugs are compiled into it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

fn tree(arguments: &[&str]) -> String {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--locked", "--manifest-path", manifest, "--prefix", "none"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_product_depends_on_no_simulator_and_plants_no_bug() {
    let product = tree(&["-p", "zest", "-e", "normal,features"]);
    assert!(product.contains("zest-world"), "this looks at the wrong package");
    for absent in ["madsim", "turmoil", "zest-sim", "\"planted\""] {
        assert!(!product.contains(absent), "the product contains {absent}");
    }
    // The same question about the simulator finds them all, so the question is a good one.
    let simulator = tree(&["-p", "zest-sim", "-e", "normal,features"]);
    for present in ["madsim", "turmoil", "\"planted\""] {
        assert!(simulator.contains(present), "{present} is not seen in the simulator");
    }
}
