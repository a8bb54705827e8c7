# pkgs.callPackage ./package.nix { }
# It was parsed and evaluated by nix 2.8, but never built: nixpkgs must have the versions that pyproject.toml wants.
{
  lib,
  fetchurl,
  installShellFiles,
  python3Packages,
}:

python3Packages.buildPythonApplication rec {
  pname = "edgecron";
  version = "@VERSION@";
  pyproject = true;

  src = fetchurl {
    url = "@SDIST_URL@";
    hash = "@SDIST_SRI@";
  };

  build-system = [ python3Packages.hatchling ];
  dependencies = with python3Packages; [
    @DEPENDENCIES@
  ];
  nativeBuildInputs = [ installShellFiles ];

  postInstall = ''
    export HOME=$TMPDIR
    for shell in bash zsh fish; do
      $out/bin/edgecron completion $shell > edgecron.$shell
    done
    installShellCompletion --cmd edgecron \
      --bash edgecron.bash --zsh edgecron.zsh --fish edgecron.fish
    $out/bin/edgecron help --man > edgecron.1
    installManPage edgecron.1
  '';
  pythonImportsCheck = [ "edgecron" ];

  meta = {
    description = "Cron that you can see, trust and embed";
    homepage = "@SOURCE@";
    changelog = "@SOURCE@/blob/v${version}/CHANGELOG.md";
    license = lib.licenses.mit;
    mainProgram = "edgecron";
    platforms = lib.platforms.linux;
  };
}
