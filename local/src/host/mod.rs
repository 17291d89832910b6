//! What sandboxes use of this machine: a state directory, and the users that own their files.
//!
//! | module | job |
//! |---|---|
//! | `layout` | the files of a sandbox on the host |
//! | `registry` | the sandboxes of a state directory, as a database |
//! | `claim` | lets one program at a time run a sandbox |
//! | `owner` | the host user of each sandbox |
//! | `disk` | measures how much disk space files use |
//! | `removal` | removes directories, also after an interruption |
//! | `trees` | files and trees of this machine as streams |

pub(crate) mod claim;
pub(crate) mod disk;
pub(crate) mod layout;
pub(crate) mod owner;
pub(crate) mod registry;
pub(crate) mod removal;
pub mod trees;
