//! The judge: what a file system must answer and what must be left of it after a crash. Built on the words of
//! `zest_types` alone; it shares no code with the accused, and so not its mistakes.

pub mod answer;
pub mod body;
pub mod content;
pub mod court;
pub mod history;
pub mod invariants;
pub mod locks;
pub mod noise;
pub mod recovered;
pub mod stamp;
pub mod tree;

pub use content::Content;
pub use court::{Court, Terms, Violation};
pub use recovered::{Found, Recovered};
