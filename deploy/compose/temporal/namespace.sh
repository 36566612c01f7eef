#!/bin/sh
# Creates the namespace, or gives an existing one the retention that compose sets. It applies to
# workflows that close from then on. Workers register the search attributes themselves.
set -eu

tries=0
until temporal operator cluster health; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || exit 1
  sleep 1
done

if temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE"; then
  temporal operator namespace update --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
else
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
fi
