//! Parses the first bytes of a client: the server name of a TLS `ClientHello`, or the start of plain HTTP.

use super::plain;
use koze_core::egress::Host;

/// The maximum number of bytes that are read to recognize what a client speaks.
pub(crate) const MAX_HELLO: usize = 64 << 10;

/// The first bytes of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hello {
    /// HTTP/1 without TLS.
    Http,
    /// HTTP/2 without TLS.
    Http2,
    /// Neither TLS nor HTTP.
    Other,
    /// TLS without a server name.
    Nameless,
    /// TLS with this server name.
    Name(Host),
    /// Malformed TLS, or a line that does not end.
    Odd,
}

/// Parses the first bytes. Returns `None` if more are needed.
pub(crate) fn read_hello(bytes: &[u8]) -> Option<Hello> {
    let message = match extract_message(bytes) {
        Message::Whole(message) => message,
        Message::Partial if bytes.len() < MAX_HELLO => return None,
        Message::Partial | Message::Odd => return Some(Hello::Odd),
        Message::Other => return plain::read_plain(bytes),
    };
    Some(parse_server_name(&message).unwrap_or(Hello::Odd))
}

enum Message {
    Whole(Vec<u8>),
    Partial,
    Odd,
    Other,
}

/// Extracts the first handshake message. It may be split over several records, and follow other records that servers
/// ignore.
fn extract_message(bytes: &[u8]) -> Message {
    const CHANGE: u8 = 20;
    const ALERT: u8 = 21;
    const HANDSHAKE: u8 = 22;

    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        match *rest {
            [] | [CHANGE | ALERT | HANDSHAKE] => return Message::Partial,
            [CHANGE | ALERT | HANDSHAKE, 3, ..] => {}
            _ if rest.len() == bytes.len() => return Message::Other,
            _ => return Message::Odd,
        }
        let [kind, _, _, high, low, ref behind @ ..] = *rest else { return Message::Partial };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if kind == HANDSHAKE {
            message.extend_from_slice(&behind[..length.min(behind.len())]);
        }
        if let [kind, one, two, three, ref body @ ..] = message[..] {
            const CLIENT_HELLO: u8 = 1;
            let wanted = usize::from(one) << 16 | usize::from(two) << 8 | usize::from(three);
            if kind != CLIENT_HELLO || wanted > MAX_HELLO {
                return Message::Odd;
            }
            if let Some(whole) = body.get(..wanted) {
                return Message::Whole(whole.to_vec());
            }
        }
        let Some(next) = behind.get(length..) else { return Message::Partial };
        rest = next;
    }
}

/// Parses the server name of a `ClientHello`. Returns `None` if it is malformed.
fn parse_server_name(message: &[u8]) -> Option<Hello> {
    const SERVER_NAME: u16 = 0;
    const HOST_NAME: u8 = 0;

    // The version, and random bytes.
    let mut rest = message.get(34..)?;
    let _session = take_prefixed(&mut rest, 1)?;
    let _ciphers = take_prefixed(&mut rest, 2)?;
    let _compression = take_prefixed(&mut rest, 1)?;
    if rest.is_empty() {
        return Some(Hello::Nameless);
    }
    let mut extensions = take_prefixed(&mut rest, 2)?;
    let mut found = Hello::Nameless;
    while !extensions.is_empty() {
        let (kind, behind) = extensions.split_first_chunk::<2>()?;
        extensions = behind;
        let mut extension = take_prefixed(&mut extensions, 2)?;
        if u16::from_be_bytes(*kind) != SERVER_NAME {
            continue;
        }
        let mut names = take_prefixed(&mut extension, 2)?;
        let (HOST_NAME, behind) = names.split_first().map(|(kind, behind)| (*kind, behind))? else {
            return None;
        };
        names = behind;
        let text = std::str::from_utf8(take_prefixed(&mut names, 2)?).ok()?;
        // With two names, a server might use the one that was not checked.
        if found != Hello::Nameless || !names.is_empty() {
            return None;
        }
        found = Hello::Name(Host::parse(text)?);
    }
    Some(found)
}

/// Takes a value with a length prefix of `prefix` bytes.
fn take_prefixed<'a>(rest: &mut &'a [u8], prefix: usize) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_at_checked(prefix)?;
    let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let (taken, behind) = behind.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(bytes: &[u8], prefix: usize) -> Vec<u8> {
        let length = bytes.len().to_be_bytes();
        [&length[8 - prefix..], bytes].concat()
    }

    /// The body of a `ClientHello` with these extensions.
    fn body(extensions: &[u8]) -> Vec<u8> {
        [
            &[3, 3][..],
            &[7; 32],
            &sized(&[1; 32], 1),
            &sized(&[0x13, 1], 2),
            &sized(&[0], 1),
            &sized(extensions, 2),
        ]
        .concat()
    }

    fn server_name(names: &[u8]) -> Vec<u8> {
        [&[0, 0][..], &sized(&sized(names, 2), 2)].concat()
    }

    fn host_name(name: &str) -> Vec<u8> {
        [&[0][..], &sized(name.as_bytes(), 2)].concat()
    }

    fn record(kind: u8, bytes: &[u8]) -> Vec<u8> {
        [&[kind, 3, 1][..], &sized(bytes, 2)].concat()
    }

    fn handshake(body: &[u8]) -> Vec<u8> {
        [&[1][..], &sized(body, 3)].concat()
    }

    #[test]
    fn names() {
        let other = [&[0, 43][..], &sized(&[2, 3, 4], 2)].concat();
        let whole = handshake(&body(&[&other[..], &server_name(&host_name("A.example."))].concat()));
        let name = Some(Hello::Name(Host::Name("a.example".into())));
        let one = record(22, &whole);
        assert_eq!(read_hello(&one), name);
        for end in 0..one.len() {
            assert_eq!(read_hello(&one[..end]), None, "{end}");
        }
        assert_eq!(read_hello(&[&one[..], b"more"].concat()), name);
        // In pieces, and after records that are ignored.
        let pieces: Vec<u8> = whole.chunks(3).flat_map(|piece| record(22, piece)).collect();
        assert_eq!(read_hello(&pieces), name);
        assert_eq!(
            read_hello(&[record(21, &[1, 0]), record(20, &[1]), record(22, &[]), pieces].concat()),
            name
        );
        // A server may choose a site by an address, although the standard forbids it.
        let address = handshake(&body(&server_name(&host_name("192.0.2.7"))));
        let named = Host::parse("192.0.2.7").map(Hello::Name);
        assert_eq!(read_hello(&record(22, &address)), named);
        assert_eq!(read_hello(&record(22, &handshake(&body(&other)))), Some(Hello::Nameless));
        let without =
            [&[3, 3][..], &[7; 32], &sized(&[], 1), &sized(&[0x13, 1], 2), &sized(&[0], 1)].concat();
        assert_eq!(read_hello(&record(22, &handshake(&without))), Some(Hello::Nameless));
    }

    #[test]
    fn not_tls_and_malformed_tls() {
        for other in [&b"SSH-2.0-x\r\n"[..], &[22, 2], &[23, 3, 3, 0, 1, 0], &[0]] {
            assert_eq!(read_hello(other), Some(Hello::Other), "{other:?}");
        }
        let two = [host_name("a.example"), host_name("b.example")].concat();
        let other_type = [host_name("a.example"), [&[1][..], &sized(b"b.example", 2)].concat()].concat();
        let other_type = server_name(&other_type);
        let twice = [server_name(&host_name("a.example")), server_name(&host_name("b.example"))].concat();
        for odd in [
            record(22, &[2, 0, 0, 0]),
            record(22, &[1, 0xff, 0xff, 0xff]),
            record(22, &handshake(&[3, 3])),
            record(22, &handshake(&body(&server_name(&two)))),
            record(22, &handshake(&body(&other_type))),
            record(22, &handshake(&body(&twice))),
            record(22, &handshake(&body(&server_name(&host_name("127.1"))))),
            record(22, &handshake(&body(&server_name(&host_name(""))))),
            record(22, &handshake(&body(&[0, 0, 0]))),
            [record(21, &[1, 0]), b"GET / HTTP/1.1".to_vec()].concat(),
        ] {
            assert_eq!(read_hello(&odd), Some(Hello::Odd), "{odd:?}");
        }
        assert_eq!(read_hello(&record(20, &[1]).repeat(MAX_HELLO)), Some(Hello::Odd));
    }
}
