//! Options of the traffic with the object store, and of how far reads run ahead. Names, units and defaults are those of
//! JuiceFS's `mount`, unless the text says otherwise.

use super::units;
use crate::serve::bytes_a_second;
use clap::Args;
use std::time::Duration;
use zest_data::Traffic;
use zest_types::limits::{DOWNLOADS, TRANSFERS, UPLOADS};

/// See the head of the file.
#[derive(Args)]
pub(super) struct TrafficArgs {
    /// A request that reads from the object store is given up after this long, and tried again.
    #[arg(long, value_name = "TIME", value_parser = timeout, default_value = "60s")]
    get_timeout: Duration,
    /// The same for requests that write.
    #[arg(long, value_name = "TIME", value_parser = timeout, default_value = "60s")]
    put_timeout: Duration,
    /// How often a failed request to the object store is tried again; blocks on their way up are tried for half an hour,
    /// however often that is.
    #[arg(long, value_name = "N", default_value_t = zest_types::limits::OBJECT_RETRIES)]
    io_retries: u32,
    /// Uploads under way at once.
    #[arg(long, value_name = "N", value_parser = transfers, default_value_t = UPLOADS)]
    max_uploads: usize,
    /// Downloads under way at once.
    #[arg(long, value_name = "N", value_parser = transfers, default_value_t = DOWNLOADS)]
    max_downloads: usize,
    /// What this mount may upload, in Mbit/s or with M, G or T; 0: what the volume's settings say.
    #[arg(long, value_name = "RATE", value_parser = units::mbit, default_value = "0")]
    upload_limit: i64,
    /// What this mount may download, likewise.
    #[arg(long, value_name = "RATE", value_parser = units::mbit, default_value = "0")]
    download_limit: i64,
    /// Bytes that reads of one handle may run ahead, in MiB or with a unit, in whole blocks; less than a block is none
    /// [default: 32 blocks; all handles together no more than half of the memory for blocks].
    #[arg(long, value_name = "SIZE", value_parser = units::mib)]
    max_readahead: Option<u64>,
    /// Blocks at once that are fetched whole because small random reads came back to them again and again; 0: small
    /// reads stay small [default: no limit].
    #[arg(long, value_name = "N")]
    prefetch: Option<usize>,
}

/// What the mount is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrafficPlan {
    pub(super) traffic: Traffic,
    pub(super) uploads: usize,
    pub(super) downloads: usize,
    pub(super) readahead: Option<u64>,
    pub(super) prefetch: Option<usize>,
}

fn timeout(text: &str) -> Result<Duration, String> {
    let time = units::duration(text)?;
    if time < Duration::from_millis(10) {
        Err(format!("{text:?} is too short: no request ends so soon"))
    } else {
        Ok(time)
    }
}

fn transfers(text: &str) -> Result<usize, String> {
    let wrong = || format!("{text:?} is no number from 1 to {TRANSFERS}");
    text.parse().ok().filter(|n| (1..=TRANSFERS).contains(n)).ok_or_else(wrong)
}

impl TrafficArgs {
    pub(super) fn plan(&self) -> TrafficPlan {
        let rate = |mbit: i64| bytes_a_second(u64::try_from(mbit).unwrap_or(0));
        let traffic = Traffic {
            get_timeout: self.get_timeout,
            put_timeout: self.put_timeout,
            retries: self.io_retries,
            upload: rate(self.upload_limit),
            download: rate(self.download_limit),
        };
        let (uploads, downloads) = (self.max_uploads, self.max_downloads);
        TrafficPlan { traffic, uploads, downloads, readahead: self.max_readahead, prefetch: self.prefetch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        traffic: TrafficArgs,
    }

    fn parse(text: &str) -> Result<TrafficPlan, clap::Error> {
        Alone::try_parse_from(text.split(' ')).map(|alone| alone.traffic.plan())
    }

    #[test]
    fn options_are_read_as_juicefs_reads_them() {
        let plan = parse("x").unwrap();
        assert_eq!(plan.traffic, Traffic::default());
        assert_eq!((plan.uploads, plan.downloads, plan.readahead, plan.prefetch), (20, 64, None, None));
        let plan = parse("x --upload-limit 100 --download-limit 1G --get-timeout 5 --put-timeout 1m --io-retries 0 --max-uploads 3 --max-downloads 200 --max-readahead 64 --prefetch 1").unwrap();
        assert_eq!((plan.traffic.upload, plan.traffic.download), (12_500_000, 125_000_000));
        assert_eq!((plan.traffic.get_timeout.as_secs(), plan.traffic.put_timeout.as_secs()), (5, 60));
        assert_eq!((plan.traffic.retries, plan.uploads, plan.downloads), (0, 3, 200));
        assert_eq!((plan.readahead, plan.prefetch), (Some(64 << 20), Some(1)));
        for bad in
            ["x --max-uploads 0", "x --max-downloads 1001", "x --get-timeout 0", "x --upload-limit fast"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
