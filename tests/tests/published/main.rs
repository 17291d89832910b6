//! The public parts of this repository: the workflows and the action on GitHub, the release, and the pages.
#![cfg(target_os = "linux")]

mod action;
mod environment;
mod pages;
mod release;
mod rust;
mod workflows;
