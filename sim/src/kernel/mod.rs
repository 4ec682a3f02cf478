//! The kernel's side of a mount, as far as it keeps what it was told of files: attributes with their time, pages, and
//! versions that tell which answer is older. Knows no names and maps no pages. Speaks the door's requests: whoever asks
//! here is answered as a process would be. What is taken back from it comes through the product's own way back.

mod files;
mod posts;
mod side;

pub use side::Kernel;
