//! The tests of farreach-os.

mod frames;
mod guest;
