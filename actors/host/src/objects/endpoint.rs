//! What the bucket setting of an `s3` volume means: which bucket, at which address, in which region, and how
//! its URLs are built. Source: volume format, endpoint parsing.

/// A bucket's address, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of the bucket.
    pub bucket: String,
    /// Scheme, host and port of the server; `None` for Amazon's own.
    pub server: Option<String>,
    /// Region that signatures name.
    pub region: String,
    /// Whether the bucket stands in the host name.
    pub virtual_host: bool,
    /// `?disable-checksum=true`: no checksum is written or verified.
    pub no_checksum: bool,
    /// `?tls-insecure-skip-verify=true`.
    pub any_certificate: bool,
}

/// Looks up an environment variable.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

fn is_on(value: &str) -> bool {
    !matches!(value, "" | "0" | "false")
}

fn amazon_region(host: &str) -> Option<String> {
    // s3.REGION.amazonaws.com, s3-REGION.amazonaws.com, s3.dualstack.REGION.amazonaws.com, …com.cn
    let stem = host.split(".amazonaws.com").next()?;
    let last = stem.rsplit('.').next()?;
    let region = last.strip_prefix("s3-").unwrap_or(last);
    (region.contains('-') && !region.starts_with("s3")).then(|| region.to_owned())
}

struct Parts {
    scheme: &'static str,
    host: String,
    path: String,
    query: Vec<(String, String)>,
}

fn split(text: &str) -> Result<Parts, String> {
    let guess = if text.contains('.') && !text.ends_with(".amazonaws.com") { "http" } else { "https" };
    let (scheme, rest) = match text.split_once("://") {
        Some(("http", rest)) => ("http", rest),
        Some(("https", rest)) => ("https", rest),
        Some((other, _)) => return Err(format!("scheme {other:?} is not http or https")),
        None => (guess, text),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if host.is_empty() {
        return Err("it names no host".into());
    }
    let query = query.split('&').filter(|pair| !pair.is_empty());
    let query = query.map(|pair| pair.split_once('=').unwrap_or((pair, "true")));
    Ok(Parts {
        scheme,
        host: host.into(),
        path: path.trim_matches('/').into(),
        query: query.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
    })
}

impl Endpoint {
    /// Takes a bucket setting apart. The error says what is wrong with it.
    pub fn parse(text: &str, env: Env<'_>) -> Result<Endpoint, String> {
        let parts = split(text)?;
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        let region = set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION"));
        let mut endpoint = Endpoint {
            bucket: String::new(),
            server: None,
            region: region.unwrap_or_else(|| "us-east-1".into()),
            virtual_host: env("JFS_S3_VHOST_STYLE").is_some_and(|value| is_on(&value)),
            no_checksum: false,
            any_certificate: false,
        };
        for (key, value) in &parts.query {
            match key.as_str() {
                "disable-checksum" => endpoint.no_checksum = is_on(value),
                "tls-insecure-skip-verify" => endpoint.any_certificate = is_on(value),
                "disable-100-continue" => {} // this client never sends it
                other => return Err(format!("option {other:?} is not supported")),
            }
        }
        endpoint.place(&parts)?;
        if endpoint.bucket.is_empty() || endpoint.bucket.contains('%') {
            return Err("it names no bucket: write http://HOST/BUCKET".into());
        }
        Ok(endpoint)
    }

    fn place(&mut self, parts: &Parts) -> Result<(), String> {
        let host = parts.host.as_str();
        let amazon = host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn");
        let numeric = host.split(':').next().is_some_and(|name| name.parse::<std::net::IpAddr>().is_ok());
        let (bucket, server) = if !parts.path.is_empty() {
            (parts.path.split('/').next().unwrap_or_default(), host)
        } else if numeric {
            return Err("it names no bucket: write http://HOST/BUCKET".into());
        } else {
            match host.split_once('.') {
                Some((bucket, rest)) => (bucket, rest),
                // A name alone is a bucket of Amazon's.
                None => (host, ""),
            }
        };
        self.bucket = bucket.into();
        if amazon {
            if let Some(region) = amazon_region(host) {
                self.region = region;
            }
            // Private endpoints are servers of their own; the public ones follow from the region.
            if host.contains(".vpce.") {
                self.server = Some(format!("{}://{server}", parts.scheme));
            }
        } else if !server.is_empty() {
            self.server = Some(format!("{}://{server}", parts.scheme));
        }
        Ok(())
    }

    /// Whether nothing is encrypted on the way.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.server.as_deref().is_some_and(|server| server.starts_with("http://"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Endpoint {
        Endpoint::parse(text, &|_| None).unwrap()
    }

    fn at(text: &str) -> (String, Option<String>, String) {
        let e = parse(text);
        (e.bucket, e.server, e.region)
    }

    fn own(bucket: &str, server: &str) -> (String, Option<String>, String) {
        (bucket.into(), Some(server.into()), "us-east-1".into())
    }

    #[test]
    fn servers_of_ones_own() {
        assert_eq!(at("http://127.0.0.1:9000/jfs"), own("jfs", "http://127.0.0.1:9000"));
        assert_eq!(at("127.0.0.1:9000/jfs/"), own("jfs", "http://127.0.0.1:9000"));
        assert_eq!(at("http://localhost:8014/b/ignored"), own("b", "http://localhost:8014"));
        assert_eq!(at("https://mine.example.org"), own("mine", "https://example.org"));
        assert_eq!(at("mine.example.org"), own("mine", "http://example.org"));
    }

    #[test]
    fn amazon() {
        let amazon = |bucket: &str, region: &str| (bucket.into(), None, region.into());
        assert_eq!(at("https://mine.s3.eu-west-1.amazonaws.com"), amazon("mine", "eu-west-1"));
        assert_eq!(at("mine.s3-eu-west-1.amazonaws.com"), amazon("mine", "eu-west-1"));
        assert_eq!(at("https://s3.cn-north-1.amazonaws.com.cn/mine"), amazon("mine", "cn-north-1"));
        assert_eq!(at("https://mine.s3.amazonaws.com"), amazon("mine", "us-east-1"));
        assert_eq!(at("mine"), amazon("mine", "us-east-1"));
    }

    #[test]
    fn environment_and_options() {
        let env = |name: &str| match name {
            "AWS_DEFAULT_REGION" => Some("mars".to_owned()),
            "JFS_S3_VHOST_STYLE" => Some("1".to_owned()),
            _ => None,
        };
        let endpoint =
            Endpoint::parse("http://h:1/b?disable-checksum=true&tls-insecure-skip-verify", &env).unwrap();
        assert_eq!(endpoint.region, "mars");
        assert!(
            endpoint.virtual_host && endpoint.no_checksum && endpoint.any_certificate && endpoint.is_plain()
        );
        for bad in ["ftp://h/b", "http:///b", "http://127.0.0.1:9000", "http://h/b?nonsense=1", ""] {
            assert!(Endpoint::parse(bad, &|_| None).is_err(), "{bad}");
        }
    }
}
