//! Software-managed address translation (SV97): are caches, handler and baselines what the paper describes?

mod addresses;
mod baselines;
mod caches;
mod checklist;
mod loops;
mod miss;
mod table;
mod world;
