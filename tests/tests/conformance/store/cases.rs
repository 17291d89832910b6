//! What every provider's store must do. The Worker of the tests contains a copy of this file, in which `koze_core` is
//! `koze`.

use futures_util::future::join_all;
use futures_util::stream;
use koze_core::store::{Expected, Key, MAX_KEY, MAX_VALUE, Range, Store};
use koze_core::{Code, Error, Result};

/// Runs all cases on two empty stores of different sessions. Returns the number of cases.
///
/// # Errors
/// The errors of the store.
///
/// # Panics
/// If the store does something else.
pub(crate) async fn check<S: Store>(store: &S, other: &S) -> Result<usize> {
    versions(store).await?;
    sizes(store).await?;
    keys(store).await?;
    lists(store).await?;
    concurrent_writes(store).await?;
    blobs(store).await?;
    failed_blobs(store).await?;
    sessions(store, other).await?;
    Ok(8)
}

fn key(text: &str) -> Key {
    Key::new(text).expect("a valid key")
}

async fn versions<S: Store>(store: &S) -> Result<()> {
    let key = key("versions");
    assert_eq!(store.get(&key).await?, None);
    assert!(!store.delete(&key, Expected::Any).await?);
    assert_eq!(store.put(&key, b"0".to_vec(), Expected::Version(1)).await?, None);
    let first = store.put(&key, b"1".to_vec(), Expected::Absent).await?.expect("it is absent");
    assert_eq!(store.put(&key, b"2".to_vec(), Expected::Absent).await?, None);
    let second = store.put(&key, b"2".to_vec(), Expected::Version(first)).await?.expect("it is that version");
    assert_eq!(store.put(&key, b"3".to_vec(), Expected::Version(first)).await?, None);
    assert!(!store.delete(&key, Expected::Version(first)).await?);
    assert!(!store.delete(&key, Expected::Absent).await?);
    let value = store.get(&key).await?.expect("it is there");
    assert_eq!((value.bytes, value.version), (b"2".to_vec(), second));
    assert!(store.delete(&key, Expected::Version(second)).await?);
    let again = store.put(&key, b"4".to_vec(), Expected::Any).await?.expect("any version");
    assert!(first != second && again != first && again != second, "a version is used once");
    assert!(store.delete(&key, Expected::Any).await?);
    Ok(())
}

async fn sizes<S: Store>(store: &S) -> Result<()> {
    let key = key("sizes");
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(MAX_VALUE).collect();
    for bytes in [Vec::new(), vec![0], b"\xff\0\n".to_vec(), bytes.clone()] {
        store.put(&key, bytes.clone(), Expected::Any).await?;
        assert!(store.get(&key).await?.expect("it is there").bytes == bytes);
    }
    let larger = [&bytes[..], b"x"].concat();
    let error = store.put(&key, larger, Expected::Any).await.expect_err("it is too large");
    assert_eq!(error.code, Code::TooLarge);
    assert!(store.get(&key).await?.expect("it is there").bytes == bytes, "the value stays");
    store.delete(&key, Expected::Any).await?;
    Ok(())
}

async fn keys<S: Store>(store: &S) -> Result<()> {
    let longest = "k".repeat(MAX_KEY);
    let odd =
        ["a", "A", "a/../b", "a//", "/", "ä 日本 😀", "'; drop table x; --", "%", "_", "__proto__", &longest];
    for text in odd {
        store.put(&key(text), text.as_bytes().to_vec(), Expected::Absent).await?.expect("it is absent");
    }
    for text in odd {
        assert_eq!(store.get(&key(text)).await?.expect("it is there").bytes, text.as_bytes(), "{text}");
        assert!(store.delete(&key(text), Expected::Any).await?);
    }
    for text in ["", "a\nb", "a\0", &"k".repeat(MAX_KEY + 1)] {
        assert_eq!(Key::new(text).expect_err("it is not valid").code, Code::InvalidInput, "{text:?}");
    }
    Ok(())
}

async fn lists<S: Store>(store: &S) -> Result<()> {
    assert_eq!(store.list(&Range::of("")).await?, []);
    let all = ["a", "a%", "a%b", "a_c", "ab", "ä", "b", "b/1", "b/2", "b/3", "c"];
    for text in all.iter().rev() {
        store.put(&key(text), vec![0; text.len()], Expected::Any).await?;
    }
    let keys = async |range: Range| -> Result<Vec<String>> {
        let list = store.list(&range).await?;
        assert!(list.iter().all(|one| one.size == one.key.len() as u64 && one.version > 0));
        Ok(list.into_iter().map(|one| one.key).collect())
    };
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    assert_eq!(keys(Range::of("")).await?, sorted);
    assert_eq!(keys(Range::of("a%")).await?, ["a%", "a%b"], "a prefix is literal");
    assert_eq!(keys(Range::of("a_")).await?, ["a_c"]);
    assert_eq!(keys(Range::of("b/")).await?, ["b/1", "b/2", "b/3"]);
    assert_eq!(keys(Range::of("d")).await?, [""; 0]);
    let page = |after: Option<&str>| Range { after: after.map(str::to_owned), limit: 2, ..Range::of("b/") };
    assert_eq!(keys(page(None)).await?, ["b/1", "b/2"]);
    assert_eq!(keys(page(Some("b/2"))).await?, ["b/3"]);
    assert_eq!(keys(page(Some("b/3"))).await?, [""; 0]);
    assert_eq!(keys(page(Some("a"))).await?, ["b/1", "b/2"], "an earlier key changes nothing");
    for text in all {
        store.delete(&key(text), Expected::Any).await?;
    }
    Ok(())
}

async fn concurrent_writes<S: Store>(store: &S) -> Result<()> {
    let counter = key("counter");
    store.put(&counter, vec![0], Expected::Any).await?;
    let increments = (0..20).map(async |_| -> Result<()> {
        loop {
            let value = store.get(&counter).await?.expect("it is there");
            let next = vec![value.bytes[0] + 1];
            if store.put(&counter, next, Expected::Version(value.version)).await?.is_some() {
                return Ok(());
            }
        }
    });
    join_all(increments).await.into_iter().collect::<Result<()>>()?;
    assert_eq!(store.get(&counter).await?.expect("it is there").bytes, [20], "no increment is lost");
    store.delete(&counter, Expected::Any).await?;
    Ok(())
}

async fn blobs<S: Store>(store: &S) -> Result<()> {
    let key = key("a blob/ä %");
    assert_eq!(store.read_blob(&key, 0, 10).await?, None);
    assert!(!store.delete_blob(&key).await?);
    // Larger than two parts of an upload, in pieces that do not divide it.
    let large: Vec<u8> = (0..20_000_000_u32).map(|index| (index % 251) as u8).collect();
    for content in [Vec::new(), b"small".to_vec(), large.clone()] {
        let pieces: Vec<Result<Vec<u8>>> = content.chunks(777_777).map(|piece| Ok(piece.to_vec())).collect();
        assert_eq!(store.put_blob(&key, stream::iter(pieces)).await?, content.len() as u64);
        let listed = store.list_blobs(&Range::of("a blob/")).await?;
        let listed: Vec<(&str, u64)> = listed.iter().map(|one| (one.key.as_str(), one.size)).collect();
        assert_eq!(listed, [(key.as_str(), content.len() as u64)]);
        let size = content.len();
        for (offset, limit) in [(0, 10), (0, 0), (3, 1), (size / 2, 100_000), (size, 5), (size + 1, 5)] {
            let piece = store.read_blob(&key, offset as u64, limit as u64).await?.expect("it is there");
            let start = offset.min(size);
            assert!(piece.bytes == content[start..(start + limit).min(size)], "{offset} {limit} of {size}");
            assert_eq!(piece.size, size as u64);
        }
    }
    assert!(store.delete_blob(&key).await?);
    assert_eq!(store.read_blob(&key, 0, 10).await?, None);
    assert_eq!(store.list_blobs(&Range::of("")).await?, []);
    Ok(())
}

async fn failed_blobs<S: Store>(store: &S) -> Result<()> {
    let (old, new) = (key("old"), key("new"));
    let content = |piece: &[u8]| vec![Ok(piece.to_vec()), Ok(piece.to_vec())];
    store.put_blob(&old, stream::iter(content(b"old"))).await?;
    // One fails before, and one after the first part of an upload.
    for size in [10, 9 << 20] {
        for key in [&old, &new] {
            let mut content = content(&vec![7; size]);
            content.push(Err(Error::new(Code::Timeout, "the source failed")));
            let error = store.put_blob(key, stream::iter(content)).await.expect_err("the source failed");
            assert_eq!(error.code, Code::Timeout);
        }
        assert_eq!(store.read_blob(&old, 0, 100).await?.expect("it stays").bytes, b"oldold");
        assert_eq!(store.read_blob(&new, 0, 100).await?, None);
        assert_eq!(store.list_blobs(&Range::of("")).await?.len(), 1, "only the old one is listed");
    }
    store.delete_blob(&old).await?;
    Ok(())
}

async fn sessions<S: Store>(store: &S, other: &S) -> Result<()> {
    let key = key("shared");
    store.put(&key, b"mine".to_vec(), Expected::Any).await?;
    store.put_blob(&key, stream::iter([Ok(b"mine".to_vec())])).await?;
    assert_eq!(other.get(&key).await?, None);
    assert_eq!(other.read_blob(&key, 0, 10).await?, None);
    assert_eq!(other.list(&Range::of("")).await?, []);
    assert_eq!(other.list_blobs(&Range::of("")).await?, []);
    assert!(!other.delete(&key, Expected::Any).await? && !other.delete_blob(&key).await?);
    assert_eq!(store.get(&key).await?.expect("it is there").bytes, b"mine");
    store.delete(&key, Expected::Any).await?;
    store.delete_blob(&key).await?;
    Ok(())
}
