//! The tests of farreach-cli.

mod bounded_memory;
mod cli;
mod cli_advise;
mod cli_contiguity;
mod cli_doctor;
mod cli_install;
mod cli_limits;
mod cli_machines;
mod cli_output;
mod cli_pagesize;
mod cli_papers;
mod cli_run;
mod cli_sampling;
mod cli_sim;
mod cli_trap;
mod cli_watch;
mod cli_workloads;
mod common;
mod confined;
mod debian;
mod faults;
mod instructions;
mod mappings;
mod recorder;
mod servers;
mod timing;
