# All abuses.
# shellcheck shell=bash

abuses() {
  recorder_abuses
  guest_abuses
}
