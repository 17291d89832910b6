//! Replaces a text in a file.

use std::fs::File;
use std::io::{Read as _, Write as _};

use koze_protocol::edit::{Applied, Edit, Edited, MAX_EDIT_TEXT, MAX_EDITED, Rejected};
use koze_protocol::operation::framed;

use super::call::{Call, End};
use super::frame::PIECE;
use super::guest::Guest;
use super::request::Done;
use super::staging::Staging;
use crate::files;
use crate::message::{Code, Fault, Place};
use crate::place::fault;

/// Replaces a text, once both texts have come. No other writer comes between reading the file and replacing it.
pub(super) fn edit_file(guest: &Guest, call: &Call, what: framed::Edit) -> Result<Done, End> {
    let framed::Edit { root, path, old, all } = what;
    let place = Place { root, path };
    let rejected = |why: Rejected| {
        let word = if why == Rejected::EmptyOld { Code::InvalidInput } else { Code::TooLarge };
        Fault::new(word, why.message(&place.path))
    };
    let failed = |error| fault(&error, &place.path);
    let too_long = || rejected(Rejected::TextTooLong);
    let old = usize::try_from(old).ok().filter(|old| *old <= MAX_EDIT_TEXT).ok_or_else(too_long)?;
    let (mut staging, mut buffer, mut length) = (Staging::new(&place), vec![0; PIECE], 0);
    loop {
        let taken = call.take(&mut buffer)?;
        if taken == 0 {
            break;
        }
        length += taken;
        if length > old + MAX_EDIT_TEXT {
            return Err(too_long().into());
        }
        staging.push(&buffer[..taken])?;
    }
    if length < old {
        return Err(Fault::new(Code::InvalidInput, "the text to replace is incomplete").into());
    }
    // Paths that differ may lead to one file: one writer at a time. Nor do several edits take memory at once.
    let _one = guest.lock_writer();
    let mut texts = Vec::with_capacity(length);
    staging.append_to(&mut texts).map_err(failed)?;
    let new = texts.split_off(old);
    let edit = Edit { old: texts, new, all };
    edit.check().map_err(rejected)?;
    let file = File::from(files::open(&place)?);
    let size = file.metadata().map_err(failed)?.len();
    if size > MAX_EDITED {
        return Err(rejected(Rejected::FileTooLarge).into());
    }
    // It may grow meanwhile.
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.take(MAX_EDITED + 1).read_to_end(&mut content).map_err(failed)?;
    let edited = match edit.apply(&content).map_err(rejected)? {
        Applied::Changed { content, replaced } => {
            let (file, pending) = files::create(&place)?;
            File::from(file).write_all(&content).map_err(failed)?;
            pending.commit()?;
            Edited::Done { size: content.len() as u64, replaced }
        }
        Applied::Unchanged(edited) => edited,
    };
    Ok(Done::Edited(edited))
}
