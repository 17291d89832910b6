//! Decides which requests come from the page.
//!
//! The page has a host name of its own, `koze-ui.localhost`, because browsers send the cookies of a host to all of its ports:
//! a server at another port of `127.0.0.1` would get the page's cookie.

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, ORIGIN};
use koze_core::http::Tokens;

use crate::dev::token;

/// The name of the page's host.
const NAME: &str = "koze-ui.localhost";
/// The name of the cookie.
const SESSION: &str = "koze_ui";
/// The header in which browsers say what kind of page sent a request.
pub(super) const SITE: &str = "sec-fetch-site";

/// Decides which requests come from the page.
pub(super) struct Guard {
    /// The page's host, with its port as browsers write it.
    host: String,
    /// The token of the URL.
    token: String,
    /// The value of the cookie. It is not the token: what a browser keeps signs in no other browser.
    cookie: String,
}

impl Guard {
    /// Creates new secrets for the page at a port.
    ///
    /// # Errors
    /// Returns a message if the system has no random numbers.
    pub(super) fn new(port: u16) -> Result<Self, String> {
        let generate = || token::generate().map_err(|error| format!("no token can be created: {error}"));
        let host = if port == 80 { NAME.to_owned() } else { format!("{NAME}:{port}") };
        Ok(Guard { host, token: generate()?, cookie: generate()? })
    }

    /// Returns the URL of the page. Browsers do not send its fragment, so it is in no log and no `Referer`.
    pub(super) fn url(&self) -> String {
        format!("http://{}/#token={}", self.host, self.token)
    }

    /// Returns the token of the URL.
    pub(super) fn tokens(&self) -> Tokens {
        read_token(&self.token)
    }

    /// Checks that a request is for the page's host, and from no page of another origin.
    ///
    /// # Errors
    /// Returns a message for the client.
    pub(super) fn check_host(&self, headers: &HeaderMap) -> Result<(), String> {
        let all_are = |name, value: &str| headers.get_all(name).iter().all(|given| given == value);
        if !headers.contains_key(HOST) || !all_are(HOST, &self.host) {
            return Err(format!("this server answers only at http://{}/", self.host));
        }
        if !all_are(ORIGIN, &format!("http://{}", self.host)) {
            return Err("this server answers no pages of other origins".to_owned());
        }
        Ok(())
    }

    /// Checks that a request for data comes from the page itself or from the address bar. Pages at other ports of this machine are
    /// of the same site, so `SameSite` does not keep the cookie from them.
    ///
    /// # Errors
    /// Returns a message for the client.
    pub(super) fn check_site(headers: &HeaderMap) -> Result<(), &'static str> {
        let is_own = headers.get_all(SITE).iter().all(|site| site == "same-origin" || site == "none");
        if is_own { Ok(()) } else { Err("only the page of `koze ui` may read this") }
    }

    /// Returns the `Set-Cookie` header for a browser that has the token of the URL.
    ///
    /// # Errors
    /// Returns a message for the client.
    pub(super) fn sign_in(&self, headers: &HeaderMap) -> Result<String, &'static str> {
        let why = "the token is not the one of this page: open the URL that `koze ui` printed last";
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        self.tokens().tenant(given).map_err(|_| why)?;
        Ok(format!("{SESSION}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie))
    }

    /// Returns whether a request has the cookie.
    pub(super) fn is_signed_in(&self, headers: &HeaderMap) -> bool {
        let secret = read_token(&self.cookie);
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut values = cookies
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|cookie| cookie.trim().strip_prefix(SESSION)?.strip_prefix('='));
        // `Tokens` compares in constant time.
        values.any(|value| secret.tenant(Some(&format!("Bearer {value}"))).is_ok())
    }
}

/// Reads a secret of this module, which is long enough to be a token.
fn read_token(token: &str) -> Tokens {
    Tokens::read(Some(token), None).ok().flatten().expect("64 digits are a valid token")
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn only_the_own_host_and_origin_are_accepted() {
        let guard = Guard::new(1234).unwrap();
        let check = |pairs: &[(&'static str, &str)]| guard.check_host(&headers(pairs)).is_ok();
        let host = ("host", "koze-ui.localhost:1234");
        assert!(check(&[host]));
        assert!(check(&[host, ("origin", "http://koze-ui.localhost:1234")]));
        assert!(!check(&[]), "no host");
        for other in
            ["127.0.0.1:1234", "localhost:1234", "koze-ui.localhost", "koze-ui.localhost:1235", "a.example"]
        {
            assert!(!check(&[("host", other)]), "{other}");
            assert!(!check(&[host, ("host", other)]), "{other}, too");
            assert!(!check(&[host, ("origin", &format!("http://{other}"))]), "{other}");
        }
        assert!(!check(&[host, ("origin", "null")]));
        assert!(!check(&[host, ("origin", "https://koze-ui.localhost:1234")]));
        assert!(Guard::new(80).unwrap().check_host(&headers(&[("host", "koze-ui.localhost")])).is_ok());
    }

    #[test]
    fn other_pages_read_nothing() {
        let check = |site| Guard::check_site(&headers(&[("sec-fetch-site", site)])).is_ok();
        assert!(Guard::check_site(&HeaderMap::new()).is_ok(), "not a browser");
        assert_eq!(["same-origin", "none", "same-site", "cross-site"].map(check), [true, true, false, false]);
    }

    #[test]
    fn the_token_of_the_url_is_exchanged_for_a_cookie() {
        let guard = Guard::new(1234).unwrap();
        let url = guard.url();
        let token = url.strip_prefix("http://koze-ui.localhost:1234/#token=").unwrap();
        let set = guard.sign_in(&headers(&[("authorization", &format!("Bearer {token}"))])).unwrap();
        let (cookie, attributes) = set.split_once("; ").unwrap();
        assert_eq!(attributes, "HttpOnly; SameSite=Strict; Path=/");
        assert!(guard.is_signed_in(&headers(&[("cookie", cookie)])));
        assert!(guard.is_signed_in(&headers(&[("cookie", &format!("a=b; {cookie}"))])));
        assert!(!cookie.contains(token));

        let of_token = format!("koze_ui={token}");
        for wrong in
            ["", "koze_ui=", "koze_ui", &of_token, &cookie[..cookie.len() - 1], &format!("x{cookie}")]
        {
            assert!(!guard.is_signed_in(&headers(&[("cookie", wrong)])), "{wrong}");
        }
        let value = cookie.strip_prefix("koze_ui=").unwrap();
        for wrong in ["", "Bearer ", "Bearer x", token, &format!("Bearer {value}")] {
            assert!(guard.sign_in(&headers(&[("authorization", wrong)])).is_err(), "{wrong}");
        }
        assert!(guard.sign_in(&HeaderMap::new()).is_err());
        let other = Guard::new(1234).unwrap();
        assert!(!other.is_signed_in(&headers(&[("cookie", cookie)])), "of another run");
    }
}
