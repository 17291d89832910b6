//! Recognizes HTTP without TLS by its first line.

use super::hello::{Hello, MAX_HELLO};

/// How an HTTP/2 connection begins without TLS and without an upgrade.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// Parses the first bytes of a client that does not speak TLS. Returns `None` if more are needed.
///
/// A first line is HTTP if it begins with a token and white space, and has a version. This accepts more than servers
/// do: what only looks like HTTP is parsed strictly later. No request has a control character in its first line, so that
/// binary protocols are recognized early.
pub(crate) fn read_plain(bytes: &[u8]) -> Option<Hello> {
    // Servers skip empty lines in front of a request.
    let first = bytes.iter().position(|byte| !is_space(*byte) && *byte != b'\n').unwrap_or(bytes.len());
    let whole = &bytes[first..];
    let end = whole.iter().position(|byte| *byte == b'\n');
    let line = &whole[..end.unwrap_or(whole.len())];
    let token = line.iter().take_while(|byte| is_token(**byte)).count();
    let is_request = match line.get(token) {
        Some(after) => token > 0 && *after != b'\r' && is_space(*after),
        None => end.is_none(),
    };
    if !is_request || line.iter().any(|byte| byte.is_ascii_control() && !is_space(*byte)) {
        return Some(Hello::Other);
    }
    if end.is_none() {
        return (bytes.len() >= MAX_HELLO).then_some(Hello::Odd);
    }
    if line.trim_ascii_end() == PREFACE {
        return Some(Hello::Http2);
    }
    let has_version = line.windows(5).any(|part| part.eq_ignore_ascii_case(b"HTTP/"));
    Some(if has_version { Hello::Http } else { Hello::Other })
}

/// Returns whether some server takes a byte for white space within a line.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

/// Returns whether a byte can be part of a method.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http() {
        for line in [
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/1.0\n",
            "\r\n\r\nPOST /\u{e4} HTTP/1.1\r\n",
            " \tget\t/\x0bhttp/1.1\r\n",
            "CUSTOM-1 http://a.example/ HTTP/1.1\r\nHost: a\r\n",
            "CONNECT a.example:443 HTTP/1.1\r\n",
        ] {
            assert_eq!(read_plain(line.as_bytes()), Some(Hello::Http), "{line:?}");
            let end = line.trim_start().find('\n').unwrap() + line.len() - line.trim_start().len();
            for end in 0..end {
                assert_eq!(read_plain(&line.as_bytes()[..end]), None, "{line:?} {end}");
            }
        }
        assert_eq!(read_plain(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Some(Hello::Http2));
        assert_eq!(read_plain(&[b"GET /".to_vec(), vec![b'a'; MAX_HELLO]].concat()), Some(Hello::Odd));
    }

    /// The first messages of clients of databases, queues, directories, shells and Git.
    #[test]
    fn other_protocols() {
        for bytes in [
            &b"*1\r\n$4\r\nPING\r\n"[..],
            b"PING\r\n",
            b"get key\r\n",
            b"SSH-2.0-OpenSSH_9.6 Ubuntu-3\r\n",
            &[0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f],
            &[b'A', 1, 0, 0, 1, 0, 0, 0],
            &[0x30, 0x20, 0x02, 0x01, 0x01, 0x60],
            &[0x30, 0x0c, 0x02, 0x01, 0x01, 0x60],
            &[0x10, 0x20, 0, 4],
            b"AMQP\0\0\x09\x01",
            b"CONNECT {\"verbose\":false}\r\n",
            b"0032git-upload-pack /a\0host=a\0",
            b"\"quoted\"",
        ] {
            assert_eq!(read_plain(bytes), Some(Hello::Other), "{bytes:?}");
        }
    }
}
