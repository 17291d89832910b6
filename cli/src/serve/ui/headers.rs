//! The headers that confine the page and what it reads. What sandboxes and models wrote is shown as text; these headers hold even
//! if the page had a mistake.

use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};

/// The page runs only its own script, and fetches only from this server. No text becomes markup: a sink such as `innerHTML`
/// throws.
const PAGE: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
);
/// The same, and frames of previews. Their hosts are subdomains of `localhost` on a port that is not known before, so they have another
/// origin than the page, and lead to this machine only.
const PAGE_WITH_FRAMES: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; frame-src http://*.localhost:*; require-trusted-types-for 'script'; \
     trusted-types 'none'",
);
/// What a browser shows of data that someone opens outside of the page has no origin and runs nothing.
const DATA: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox");

const COMMON: [(HeaderName, HeaderValue); 5] = [
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Adds the headers of every response. A response that has no policy of its own gets the one of the page.
pub(super) fn add_common(headers: &mut HeaderMap, has_frames: bool) {
    for (name, value) in COMMON {
        headers.insert(name, value);
    }
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(if has_frames { PAGE_WITH_FRAMES } else { PAGE });
}

/// Adds the headers of data: a browser saves it and never shows it.
pub(super) fn confine_data(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, DATA);
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
}

/// Sets the cookie, which is plain ASCII.
pub(super) fn set_cookie(headers: &mut HeaderMap, cookie: &str) {
    headers.insert(SET_COOKIE, HeaderValue::from_str(cookie).expect("a cookie of hexadecimal digits"));
}
