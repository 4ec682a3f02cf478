//! What this program calls itself.

/// The line `zest version` prints.
pub(super) fn text() -> String {
    format!("zest version {}", env!("CARGO_PKG_VERSION"))
}

/// The version a session reports: the release of the volume format's own client that ours is compatible with, and
/// behind it which program this is.
pub(super) fn session() -> String {
    format!("1.4.2+zest-{}", env!("CARGO_PKG_VERSION"))
}
