//! The two halves of the stream agree on its numbers.
