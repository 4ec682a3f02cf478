//! Options of `mount` about metrics: where they are served, and the labels they carry.

use crate::metrics::{self, Endpoint};
use clap::Args;

/// Arguments of `mount` about metrics.
#[derive(Args, Debug, Default)]
pub(super) struct MetricsArgs {
    /// Serve figures for Prometheus at http://HOST:PORT/metrics; '' for nowhere [default: 127.0.0.1:9567, or another
    /// port where that is taken].
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Labels for them: name:value pairs, separated by semicolons.
    #[arg(long, value_name = "LABELS", default_value = "", hide_default_value = true)]
    custom_labels: String,
}

impl MetricsArgs {
    /// Listens. A place nobody named is no reason not to mount.
    pub(super) fn open(&self) -> anyhow::Result<Option<Endpoint>> {
        let labels = metrics::labels(&self.custom_labels)?;
        let listener = match self.metrics.as_deref() {
            Some("") => return Ok(None),
            Some(place) => metrics::bind(place, true)?,
            None => match metrics::bind(metrics::DEFAULT, false) {
                Ok(listener) => listener,
                Err(error) => {
                    tracing::warn!("metrics are not served: {error:#}");
                    return Ok(None);
                }
            },
        };
        Ok(Some(Endpoint { listener, labels }))
    }
}
