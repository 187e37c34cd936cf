//! Translation hardware: designs that cache what the page table says. They never allocate memory and never change a page
//! table; the operating system tells them what changed.

pub mod cache;
pub mod nested;
pub mod shootdown;
pub mod system;
pub mod tlb;
