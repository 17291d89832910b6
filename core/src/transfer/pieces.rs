//! Copies with the basic operations, which every sandbox supports.

use koze_protocol::tar::MODE;

use crate::error::{Code, Error, Result};
use crate::sandbox::{Entry, Kind, Place, Sandbox, Stat};
use crate::transfer::witness::{Witness, lost_if_missing};

/// The size of one piece in bytes.
const PIECE: u64 = 1024 * 1024;

/// The maximum number of files and directories of a transfer.
const MAX_ENTRIES: usize = 1_000_000;

/// Copies a file or tree to a path that does not exist. Returns the total size of its files.
pub async fn copy<S: Sandbox, T: Sandbox>(
    from: &S,
    source: Place<'_>,
    to: &T,
    target: Place<'_>,
) -> Result<u64> {
    // List the whole tree before writing, so that a copy into itself ends.
    let tree = list_tree(from, source).await?;
    let under = |place: Place<'_>, entry: &str| match entry {
        "" => place.path.to_owned(),
        entry => format!("{}{entry}", place.path.trim_end_matches('/')),
    };
    let (mut bytes, mut witness) = (0, None);
    for (entry, stat) in &tree {
        let (old, new) = (under(source, entry), under(target, entry));
        let (old, new) = (Place { path: &old, ..source }, Place { path: &new, ..target });
        match &stat.kind {
            Kind::Directory => {
                to.make_dir(new).await?;
                if witness.is_none() {
                    witness = Some(Witness::create_in(to, new).await?);
                }
            }
            Kind::Link(leads) => to.make_link(new, leads).await?,
            Kind::File => bytes += copy_file(from, old, to, new, stat).await?,
            Kind::Other => {
                let message =
                    format!("`{}` is not a regular file, directory or link, and cannot be copied", old.path);
                return Err(Error::new(Code::Unsupported, message));
            }
        }
    }
    if let Some(witness) = witness {
        witness.remove(to).await?;
    }
    // Set modes last, deepest first: a directory may be read-only.
    for (entry, stat) in tree.iter().rev().filter(|(_, stat)| stat.kind == Kind::Directory) {
        let path = under(target, entry);
        let set = to.set_mode(Place { path: &path, ..target }, stat.mode & MODE).await;
        set.map_err(|error| lost_if_missing(error, target.path))?;
    }
    Ok(bytes)
}

/// Returns the paths below a place, each with a leading slash, directories before their content. The first is the place
/// itself.
async fn list_tree<S: Sandbox>(sandbox: &S, place: Place<'_>) -> Result<Vec<(String, Stat)>> {
    let mut stat = sandbox.stat(place).await?;
    if let Kind::Link(_) = stat.kind {
        stat = match sandbox.list(place).await {
            Ok(_) => Stat { kind: Kind::Directory, mode: 0o755, ..stat },
            Err(error) if error.code == Code::NotADirectory => Stat { kind: Kind::File, mode: 0o644, ..stat },
            Err(error) => return Err(error),
        };
    }
    let mut left = if stat.kind == Kind::Directory { vec![String::new()] } else { Vec::new() };
    let mut entries = vec![(String::new(), stat)];
    while let Some(dir) = left.pop() {
        let path = format!("{}{dir}/", place.path.trim_end_matches('/'));
        for Entry { name, stat } in sandbox.list(Place { path: &path, ..place }).await? {
            let entry = format!("{dir}/{name}");
            if stat.kind == Kind::Directory {
                left.push(entry.clone());
            }
            entries.push((entry, stat));
        }
        if entries.len() > MAX_ENTRIES {
            let message = format!("`{}` has more than {MAX_ENTRIES} files and directories", place.path);
            return Err(Error::new(Code::TooLarge, message));
        }
    }
    Ok(entries)
}

async fn copy_file<S: Sandbox, T: Sandbox>(
    from: &S,
    source: Place<'_>,
    to: &T,
    target: Place<'_>,
    stat: &Stat,
) -> Result<u64> {
    let mut offset = 0;
    loop {
        let piece = from.read(source, offset, PIECE).await?;
        let count = piece.bytes.len() as u64;
        if count > 0 || offset == 0 {
            to.write_at(target, offset, piece.bytes).await?;
        }
        offset += count;
        if count < PIECE {
            break;
        }
    }
    if stat.size.max(offset) > PIECE {
        check_unreplaced(from, source, stat, offset).await?;
    }
    to.set_mode(target, stat.mode & MODE).await.map_err(|error| lost_if_missing(error, target.path))?;
    Ok(offset)
}

/// Checks that a file which was read in pieces was not replaced by an earlier version meanwhile, as the image has one after a restart
/// of the container. A file that programs write to may have grown.
///
/// # Errors
/// [`Code::Unavailable`] if it was.
pub(crate) async fn check_unreplaced<S: Sandbox>(
    sandbox: &S,
    place: Place<'_>,
    before: &Stat,
    read: u64,
) -> Result<()> {
    let is_replaced = match sandbox.stat(place).await {
        // What a link leads to is not described.
        Ok(now) if now.kind == Kind::File => {
            read < before.size || now.size < read || now.mtime < before.mtime
        }
        Ok(_) => false,
        Err(error) if error.code == Code::NotFound => true,
        Err(error) => return Err(error),
    };
    if !is_replaced {
        return Ok(());
    }
    let message = format!("`{}` was replaced while it was read: try again", place.path);
    Err(Error::new(Code::Unavailable, message))
}
