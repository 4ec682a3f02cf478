//! A whole simulated world: devices, one client that runs the product's actors, its users, and the court. Knows
//! how to live through a run; what runs are worth living is the explorer's business.

pub mod census;
pub mod copies;
pub mod incarnation;
pub mod life;
pub mod look;
pub mod operator;
pub mod scene;
pub mod user;

pub use life::{Outcome, live};
