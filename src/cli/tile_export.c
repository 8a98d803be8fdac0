#include "cli/tile.h"

#include "base/banned.h"

int tile_export(const struct tile_options *options)
{
    (void)options;
    return cli_fail("not yet");
}
