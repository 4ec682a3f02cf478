#!/usr/bin/env bash
# The tree test with the blocks on a real S3 server on loopback.
STORE=s3 exec "$(dirname "$0")/tree.sh" "$@"
