//! Which hosts a sandbox may reach.

use super::host::Host;
use crate::error::{Code, Error, Result};
use crate::provider::Image;

/// The hosts of an image, as its class in a Worker has them: what is denied is denied, and what is allowed is reached
/// also where the internet is off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    /// Empty means any.
    allowed: Vec<Pattern>,
    denied: Vec<Pattern>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    /// This host.
    Host(Host),
    /// All names that end so, the dot in front included: `.example.com`.
    Below(String),
}

impl Policy {
    /// The policy of an image; none where nothing can be reached.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] where what should be a host is none: it would match nothing, and deny nothing.
    pub(super) fn of(image: &Image) -> Result<Option<Self>> {
        let all = |hosts: &[String]| hosts.iter().map(|host| Pattern::parse(host)).collect::<Result<_>>();
        let policy = Policy { allowed: all(&image.allowed_hosts)?, denied: all(&image.denied_hosts)? };
        Ok((image.internet || !policy.allowed.is_empty()).then_some(policy))
    }

    /// Why a host cannot be reached; none where it can.
    pub(super) fn refusal(&self, host: &Host) -> Option<String> {
        if self.denied.iter().any(|pattern| pattern.matches(host)) {
            return Some(format!("this sandbox may not reach {host}: it is among its `denied_hosts`"));
        }
        if !self.allowed.is_empty() && !self.allowed.iter().any(|pattern| pattern.matches(host)) {
            return Some(format!("this sandbox may not reach {host}: it is not among its `allowed_hosts`"));
        }
        None
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self> {
        let below = text.strip_prefix("*.");
        match (Host::parse(below.unwrap_or(text)), below) {
            (Some(Host::Name(name)), Some(_)) => Ok(Pattern::Below(format!(".{name}"))),
            (Some(host), None) => Ok(Pattern::Host(host)),
            _ => {
                let text = format!(
                    "`{}` is no host that can be allowed or denied: write a name or an address, without scheme, \
                     port or path; before a name `*.` may stand",
                    text.escape_debug()
                );
                Err(Error::new(Code::InvalidInput, text))
            }
        }
    }

    fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Pattern::Host(this), host) => this == host,
            (Pattern::Below(end), Host::Name(name)) => name.ends_with(end) && name.len() > end.len(),
            (Pattern::Below(_), Host::Address(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Size;

    fn image(internet: bool, allowed: &[&str], denied: &[&str]) -> Image {
        let all = |hosts: &[&str]| hosts.iter().map(|&host| host.to_owned()).collect();
        Image {
            name: "a".into(),
            reference: "a:1".into(),
            internet,
            allowed_hosts: all(allowed),
            denied_hosts: all(denied),
            env: Vec::new(),
            size: Size { memory_mib: 1, disk_mb: 1 },
            sleep_after: None,
        }
    }

    fn reaches(image: &Image, host: &str) -> bool {
        let policy = Policy::of(image).unwrap().unwrap();
        policy.refusal(&Host::parse(host).unwrap()).is_none()
    }

    #[test]
    fn off_unless_asked_for() {
        assert_eq!(Policy::of(&image(false, &[], &[])).unwrap(), None);
        assert_eq!(Policy::of(&image(false, &[], &["a.example"])).unwrap(), None);
        assert!(reaches(&image(true, &[], &[]), "any.example"));
        // As in a Worker, hosts that are allowed are reached also where the rest is off.
        let some = image(false, &["a.example"], &[]);
        assert!(reaches(&some, "a.example") && !reaches(&some, "b.example"));
    }

    #[test]
    fn patterns() {
        let image =
            image(true, &["a.example", "*.b.example", "203.0.113.7", "*.c.d"], &["*.x.b.example", "c.c.d"]);
        for host in
            ["a.example", "A.EXAMPLE.", "y.b.example", "y.y.b.example", "203.0.113.7", "x.b.example", "e.c.d"]
        {
            assert!(reaches(&image, host), "{host}");
        }
        for host in [
            "b.example",
            "y.a.example",
            "ya.example",
            "yb.example",
            "203.0.113.8",
            "[::1]",
            "y.x.b.example",
            "c.c.d",
        ] {
            assert!(!reaches(&image, host), "{host}");
        }
        // One address in two notations.
        assert!(reaches(&image, "[::ffff:203.0.113.7]"));
    }

    #[test]
    fn what_is_no_host() {
        for host in [
            "",
            "*",
            "*.",
            "a*b.example",
            "https://a.example",
            "a.example:443",
            "*.*.example",
            "*.1.2.3.4",
            "0x7f.1",
        ] {
            for image in [image(true, &[host], &[]), image(false, &[], &[host])] {
                let error = Policy::of(&image).unwrap_err();
                assert_eq!(error.code, Code::InvalidInput, "{host}");
            }
        }
    }
}
