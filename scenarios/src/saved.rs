//! Saved failures: every file in `saved/` is a plan that once broke a rule, named after what it showed.

use std::path::PathBuf;
use zest_sim::plan::Setup;

/// The folder of the saved plans.
#[must_use]
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("saved")
}

/// Every saved plan with its name, in order.
///
/// # Errors
/// The file that can't be read, or is no plan.
pub fn all() -> Result<Vec<(String, Setup)>, String> {
    let listed = std::fs::read_dir(folder()).map_err(|error| error.to_string())?;
    let mut files: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    files.into_iter().map(|file| load(&file)).collect()
}

fn load(file: &std::path::Path) -> Result<(String, Setup), String> {
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    let setup = serde_json::from_str(&text).map_err(|error| format!("{name} is no plan: {error}"))?;
    Ok((name, setup))
}
