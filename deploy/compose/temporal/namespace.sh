#!/bin/sh
# Creates the namespace unless it exists. Workers register the search attributes themselves.
set -eu

tries=0
until temporal operator cluster health; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || exit 1
  sleep 1
done

temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" ||
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
