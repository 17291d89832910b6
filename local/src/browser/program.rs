//! Finds Chromium, and builds its command line.

use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use rustls::pki_types::CertificateDer;

use koze_core::error::{Code, Error, Result};

/// The paths of Chromium in distributions, and whether it needs an argument to run headless. koze uses the first one that
/// exists on this machine; a sandbox sees the same files.
const PLACES: &[(&str, bool)] = &[
    // Debian: `chromium-headless-shell`, and `chromium`.
    ("/usr/lib/chromium/chromium-headless-shell", false),
    ("/usr/lib/chromium/chromium", true),
    // Fedora: `chromium-headless`, and `chromium`.
    ("/usr/lib64/chromium-browser/headless_shell", false),
    ("/usr/lib64/chromium-browser/chromium-browser", true),
    // Arch: `chromium`. Alpine uses the path above.
    ("/usr/bin/chromium", true),
];

/// The part of the file system that a sandbox sees.
const VISIBLE: &str = "/usr";

/// The directory of its files, which are in memory.
const FILES: &str = "/dev/shm/profile";

/// Lets Chromium trust authorities, and passes its standard input and output on as the pipes of the protocol. Arguments: the program, the
/// number of authorities, these in base64, and the arguments of the program. An authority that `certutil` refuses is left out.
const SHELL: &str = r#"
    number=$1 database=$HOME/.pki/nssdb; shift
    if [ "$number" -gt 0 ]; then
        mkdir -p "$database"; certutil -d "sql:$database" -N --empty-password </dev/null >/dev/null
    fi
    while [ "$number" -gt 0 ]; do
        echo "$1" | certutil -d "sql:$database" -A -a -n "$number" -t C,, >/dev/null
        shift; number=$((number - 1))
    done
    exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null"#;

/// The program that adds authorities to the database that Chromium reads.
const CERTUTIL: &str = "/usr/bin/certutil";

/// The arguments, apart from the address of the proxy.
const ARGUMENTS: &[&str] = &[
    "--remote-debugging-pipe",
    // It runs in koze's sandbox, which allows no namespaces for Chromium's own.
    "--no-sandbox",
    // Its processes are no boundary anyway. Pages of different sites share one, which needs less memory.
    "--disable-site-isolation-trials",
    "--disable-features=IsolateOrigins,site-per-process,Translate,MediaRouter,OptimizationHints,DialMediaRouteProvider,\
     AutofillServerCommunication,CertificateTransparencyComponentUpdater,NetworkTimeServiceQuerying",
    // Use the proxy also for loopback names, which it refuses.
    "--proxy-bypass-list=<-loopback>",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--dns-prefetch-disable",
    // New windows would not be visible to any client.
    "--block-new-web-contents",
    // No requests of the browser itself.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pings",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-dinosaur-easter-egg",
    "--disable-gpu",
    "--disable-hang-monitor",
    "--disable-logging",
    "--disable-notifications",
    "--disable-print-preview",
    "--disable-speech-api",
    "--hide-scrollbars",
    "--mute-audio",
    "--password-store=basic",
    "--use-mock-keychain",
    "--disk-cache-size=33554432",
    "--media-cache-size=1048576",
    "--renderer-process-limit=4",
    "--window-size=1280,720",
    "--lang=en-US",
];

/// Chromium on this machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chromium {
    program: &'static str,
    has_windows: bool,
}

impl Chromium {
    /// Finds Chromium.
    pub(super) fn find() -> Result<Self> {
        Chromium::among(PLACES).ok_or_else(|| {
            let text = "the browser of scripts needs Chromium, which is not installed on this machine: run \
                        `apt-get install chromium-headless-shell` on Debian, `dnf install chromium-headless` on Fedora, or install \
                        Chromium below `/usr` (not as a snap or flatpak)";
            Error::new(Code::Unavailable, text)
        })
    }

    fn among(places: &[(&'static str, bool)]) -> Option<Self> {
        let is_visible = |path: &str| {
            let found: PathBuf = std::fs::canonicalize(path).ok()?;
            (found.starts_with(VISIBLE) && found.is_file()).then_some(())
        };
        let found = places.iter().find(|(path, _)| is_visible(path).is_some());
        found.map(|(program, has_windows)| Chromium { program, has_windows: *has_windows })
    }

    /// Returns the command that starts it and lets it trust authorities. No part of it comes from a model.
    pub(super) fn command(&self, authorities: &[CertificateDer<'_>]) -> Vec<String> {
        let authorities: Vec<String> = authorities.iter().map(|authority| BASE64.encode(authority)).collect();
        let proxy = format!("--proxy-server=http://127.0.0.1:{}", koze_egress::PORT);
        let files = format!("--user-data-dir={FILES}");
        let headless = self.has_windows.then(|| "--headless".to_owned());
        ["/bin/sh", "-c", SHELL, self.program]
            .map(str::to_owned)
            .into_iter()
            .chain([authorities.len().to_string()])
            .chain(authorities)
            .chain(ARGUMENTS.iter().map(|&argument| argument.to_owned()))
            .chain([proxy, files])
            .chain(headless)
            .collect()
    }
}

/// Returns whether this machine has the program that lets Chromium trust authorities.
pub(super) fn has_certutil() -> bool {
    Path::new(CERTUTIL).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_sandbox_sees_is_used() {
        let missing = ("/usr/lib/koze-test/none", false);
        assert_eq!(Chromium::among(&[missing, ("/proc/self/exe", false), ("/usr", false)]), None);
        let found = Chromium::among(&[missing, ("/usr/bin/env", true)]).unwrap();
        assert_eq!(found, Chromium { program: "/usr/bin/env", has_windows: true });
        let command = found.command(&[CertificateDer::from(vec![1])]);
        assert_eq!(command[..6], ["/bin/sh", "-c", SHELL, "/usr/bin/env", "1", "AQ=="]);
        assert_eq!(command.last().unwrap(), "--headless");
    }
}
