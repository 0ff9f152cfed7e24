-- Names that would be served alike are remembered as one (`remembered_as`). Of several that were there one stays: the others say something else now, and wait.
UPDATE OR REPLACE pins SET tool = lower(replace(replace(replace(replace(replace(tool, '_', '-'), '.', '-'), '/', '-'), ':', '-'), ' ', '-'));
