// A shared object with schemes of both families.
#include "peer/schemes/ddp.h"
#include "ps/schemes/ps.h"

extern "C" ringside::SyncScheme* make_mine(const ringside::RankContext& context, bool servers) {
  return servers ? ringside::ps::make_ps(context, {}).release()
                 : ringside::peer::make_ddp(context, {}).release();
}
