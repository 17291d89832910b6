//! The hostname of a preview: `<port>-<name>-<token>.localhost`.

/// The parsed hostname of a preview.
#[derive(Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// The port in the sandbox.
    pub port: u16,
    /// The name of the sandbox.
    pub name: &'a str,
    /// Its token, of which knowledge is the permission to open the preview.
    pub token: &'a str,
}

impl<'a> Address<'a> {
    /// Parses a `Host` header, which may include a port. It must be lowercase, as browsers send it.
    pub fn parse(host: &'a str) -> Option<Self> {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        Self::parse_label(name.strip_suffix('.').unwrap_or(name).strip_suffix(".localhost")?)
    }

    /// Parses the first label of a `Host` header for any host: a server may have forwarded the request.
    pub fn parse_any(host: &'a str) -> Option<Self> {
        Self::parse_label(host.split_once('.')?.0)
    }

    /// Parses `<port>-<name>-<token>`.
    pub fn parse_label(label: &'a str) -> Option<Self> {
        let (port, rest) = label.split_once('-')?;
        let (name, token) = rest.rsplit_once('-')?;
        let decimal = !port.starts_with('0') && port.bytes().all(|byte| byte.is_ascii_digit());
        Some(Address { port: decimal.then(|| port.parse().ok())??, name, token })
    }

    /// Returns the URL, given the port of the preview server. Its first label has at most 5 + 1 + 20 + 1 + 32 of the
    /// allowed 63 bytes.
    pub fn url(&self, listening: u16) -> String {
        format!("http://{}-{}-{}.localhost:{listening}/", self.port, self.name, self.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let token = "0123456789abcdef".repeat(2);
        let name = "a-b--c0123456789xyz0";
        for port in [1, 8080, u16::MAX] {
            let address = Address { port, name, token: &token };
            let url = address.url(65_000);
            let host = url.strip_prefix("http://").unwrap().strip_suffix('/').unwrap();
            assert_eq!(Address::parse(host), Some(address));
            assert!(host.split('.').next().unwrap().len() <= 63, "{host}");
        }
        assert_eq!(Address::parse("80-a-t.localhost."), Some(Address { port: 80, name: "a", token: "t" }));
    }

    #[test]
    fn any_host() {
        let address = Some(Address { port: 80, name: "a-b", token: "t" });
        assert_eq!(Address::parse_label("80-a-b-t"), address);
        assert_eq!(Address::parse_any("80-a-b-t.previews.example:443"), address);
        assert_eq!(Address::parse_any("80-a-b-t.localhost"), address);
        for host in ["", "80-a-b-t", "localhost", "previews.example", "x.80-a-b-t.example"] {
            assert_eq!(Address::parse_any(host), None, "{host}");
        }
    }

    #[test]
    fn nothing_else() {
        for host in [
            "",
            "localhost",
            "127.0.0.1:80",
            "a.localhost",
            "8080-a.localhost",
            "8080-a-t.localhost.example",
            "8080-a-t.example",
            "0-a-t.localhost",
            "08-a-t.localhost",
            "+8-a-t.localhost",
            "65536-a-t.localhost",
            "-a-t.localhost",
        ] {
            assert_eq!(Address::parse(host), None, "{host}");
        }
    }
}
