# All abuses.
# shellcheck shell=bash

abuses() {
  recorder_abuses
  recorder_guests
  guest_abuses
}
