//! Which image a new sandbox has: the one that its profile declares, or none, and then this machine's programs.

use std::path::Path;

use koze_image::{Image, Reference, Store};

use koze_core::error::{Code, Error, Result};
use koze_core::provider::{LocalImage, Profile};
use koze_protocol::PLATFORM_IMAGE;

/// The start of an ID of an image.
const ID: &str = "sha256:";

/// Returns the image of a new sandbox, and its store in the directory `images`.
pub(super) fn choose(images: Option<&Path>, profile: &Profile) -> Result<Option<(Store, Image)>> {
    match profile.local_image {
        LocalImage::Stored => find_stored(images, profile),
        LocalImage::Declared => find_or_pull(images, profile).map(Some),
        LocalImage::Host => Ok(None),
    }
}

/// Returns those of the profiles whose new sandboxes have the files of their image. A store that cannot be read has no images.
pub(crate) fn list_used<'a>(
    images: Option<&Path>,
    profiles: impl IntoIterator<Item = &'a Profile>,
) -> Vec<&'a Profile> {
    let store = images.and_then(|images| open_store(images).ok().flatten());
    let is_stored = |profile: &Profile| {
        let (Some(store), Some(name)) = (&store, parse_reference(profile)) else { return false };
        store.has(&name).is_ok_and(|has| has)
    };
    let is_used = |profile: &&Profile| match profile.local_image {
        LocalImage::Stored => is_stored(profile),
        LocalImage::Declared => true,
        LocalImage::Host => false,
    };
    profiles.into_iter().filter(is_used).collect()
}

fn find_stored(images: Option<&Path>, profile: &Profile) -> Result<Option<(Store, Image)>> {
    let Some(store) = images.map(open_store).transpose()?.flatten() else { return Ok(None) };
    let found = match (&profile.stored, parse_reference(profile)) {
        (Some(id), _) if id.starts_with(ID) => store.find_id(id),
        (_, Some(name)) => store.find(&name),
        (_, None) => return Ok(None),
    };
    Ok(found.map_err(store_error)?.map(|image| (store, image)))
}

/// Returns the stored image, or pulls it. Other sandboxes that need it meanwhile wait for it.
fn find_or_pull(images: Option<&Path>, profile: &Profile) -> Result<(Store, Image)> {
    let reference = &profile.reference;
    let fail = |why: &str| {
        let next = "or do not ask for the declared image, and the sandbox has this machine's programs";
        let text = format!("the image `{reference}` cannot be used here: {why}, {next}");
        Err(Error::new(Code::Unavailable, text))
    };
    let Some(images) = images else { return fail("there is no directory for images: set `KOZE_IMAGES`") };
    if let Some(found) = find_stored(Some(images), profile)? {
        return Ok(found);
    }
    if profile.stored.is_some() {
        return fail(&format!("it was not built: run `koze image build {}`", profile.name));
    }
    if reference == PLATFORM_IMAGE {
        return fail("it is in no registry: declare another one");
    }
    let Some(name) = parse_reference(profile) else { return fail("it is not the reference of an image") };
    let store = Store::open(images).map_err(store_error)?;
    match store.pull(&name, &|_| {}) {
        Ok(image) => Ok((store, image)),
        Err(error) => fail(&format!("{error}: run `koze image pull {reference}`")),
    }
}

/// Opens a store that exists.
fn open_store(images: &Path) -> Result<Option<Store>> {
    if images.is_dir() { Store::open(images).map(Some).map_err(store_error) } else { Ok(None) }
}

/// Parses the name in the store.
fn parse_reference(profile: &Profile) -> Option<Reference> {
    profile.stored_name().parse().ok()
}

fn store_error(error: koze_image::Error) -> Error {
    Error::new(Code::Unavailable, format!("the store of images cannot be used: {error}")).with_source(error)
}
