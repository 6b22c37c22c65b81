// Headers need no library to be compiled.
#include "core/scheme/local_replicas.h"
#include "core/scheme/scheme.h"

int schemes(const ringside::SyncScheme& scheme) { return scheme.own_replicas(); }
